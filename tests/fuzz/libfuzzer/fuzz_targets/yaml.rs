#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| muster_fuzz::targets::yaml(data));
