//! The reader that the tests judge replies with: whatever the bytes, it answers,
//! and what it takes for whole never changes when more bytes follow.
#![no_main]

use disque_testing::resp::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((value, used))) = parse(bytes) {
        assert_eq!(parse(&bytes[..used]), Ok(Some((value, used))));
    }
});
