//! See `command_arguments` in src/fuzz.rs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| disque::fuzz::command_arguments(bytes));
