//! See `auxiliary_data` in tests/fuzz.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| disque_fuzz_targets::auxiliary_data(bytes));
