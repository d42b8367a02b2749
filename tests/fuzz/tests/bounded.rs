//! What CI runs: every target over its corpus and a fixed number of mutations from a fixed seed.
//! `MUSTER_FUZZ_INPUTS` and `MUSTER_FUZZ_SEED` change both.

#![allow(clippy::unwrap_used)]

use muster_fuzz::mutate::{Random, mutated};
use muster_fuzz::runner::{Limit, run};
use muster_fuzz::{TARGETS, target};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn bounded(name: &str) {
    let limit = Limit::Inputs(setting("MUSTER_FUZZ_INPUTS", 3_000));
    let seed = setting("MUSTER_FUZZ_SEED", 1);
    let outcome = run(name, target(name).unwrap(), seed, limit).unwrap();
    if let Err(failure) = outcome {
        panic!("{name} failed on {}: {}", failure.origin, failure.input.escape_ascii());
    }
}

macro_rules! bounded {
    ($($name:ident)*) => {
        $(#[test] fn $name() { bounded(stringify!($name)); })*

        #[test]
        fn every_target_has_a_test_and_a_libfuzzer_binary() {
            let tested = [$(stringify!($name)),*];
            let all: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(tested.as_slice(), all.as_slice());
            let manifest = include_str!("../libfuzzer/Cargo.toml");
            for name in all {
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
            }
        }
    };
}

bounded! { json yaml json_patch merge_patch strategic_merge_patch managed_fields server_side_apply label_selector label_selector_object field_selector name protobuf typed_body custom_resource cel filter }

#[test]
fn a_failing_target_is_reported_with_its_input() {
    fn picky(data: &[u8]) {
        assert!(!data.contains(&b'{'), "as asked");
    }
    let failure = run("json", picky, 1, Limit::Inputs(1)).unwrap().unwrap_err();
    assert!(failure.input.contains(&b'{') && failure.origin.contains("corpus"));
}

#[test]
fn a_seed_repeats_its_inputs() {
    let corpus = [b"{}".to_vec(), b"[1]".to_vec()];
    let inputs = |seed| {
        let mut random = Random(seed);
        (0..50).map(|_| mutated(&corpus, &mut random)).collect::<Vec<_>>()
    };
    assert_eq!(inputs(7), inputs(7));
    assert_ne!(inputs(7), inputs(8));
}
