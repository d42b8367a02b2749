//! Three real control planes with kwok's nodes as members of one `muster up`: joined, followed, restarted, lost, found again, taken out; and
//! one with a real kubelet, whose containers are looked into.
//!
//! Its peers take minutes to build, so it runs only when it is asked for: `make e2e`, or MUSTER_E2E=1.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, unused_crate_dependencies)]

mod apps;
mod inside;
mod joining;
mod kubelet;
mod losing;
mod stage;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use stage::Stage;

type Case = (&'static str, fn(&mut Stage));

/// In this order, on one stage: what a case leaves is what the next finds.
const CASES: &[Case] = &[
    ("joining::by_kubeconfig", joining::by_kubeconfig),
    ("joining::by_an_account_that_reads", joining::by_an_account_that_reads),
    ("joining::an_account_is_given_more_while_it_is_a_member", joining::an_account_is_given_more_while_it_is_a_member),
    ("joining::what_is_wrong_with_an_import_is_told", joining::what_is_wrong_with_an_import_is_told),
    ("apps::pods_of_all_clusters_are_followed", apps::pods_of_all_clusters_are_followed),
    ("apps::releases_of_helm_3_and_4_are_listed", apps::releases_of_helm_3_and_4_are_listed),
    ("apps::a_restart_rolls_the_pods_of_its_group_alone", apps::a_restart_rolls_the_pods_of_its_group_alone),
    ("inside::logs_and_commands_pass_a_real_api_server", inside::logs_and_commands_pass_a_real_api_server),
    ("inside::a_terminal_passes_a_real_api_server", inside::a_terminal_passes_a_real_api_server),
    ("kubelet::real_containers_are_looked_into", kubelet::real_containers_are_looked_into),
    ("kubelet::an_at_runs_as_a_real_pod_once", kubelet::an_at_runs_as_a_real_pod_once),
    ("losing::a_killed_member_is_unreachable_and_returns", losing::a_killed_member_is_unreachable_and_returns),
    ("losing::muster_is_killed_and_finds_its_members_again", losing::muster_is_killed_and_finds_its_members_again),
    ("joining::who_is_taken_out_leaves_nothing_behind", joining::who_is_taken_out_leaves_nothing_behind),
];

fn main() {
    let arguments = muster_tests::runner::arguments();
    if arguments.list {
        CASES.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    if std::env::var_os("MUSTER_E2E").is_none_or(|value| value.is_empty() || value == "0") {
        println!(
            "not run: it needs real control planes; `make e2e` builds and runs them\n\ntest result: 0 passed; 0 failed"
        );
        return;
    }
    muster_tests::runner::install_panic_hook();
    let mut stage = Stage::begin().unwrap_or_else(|why| panic!("{why}"));
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, case) in CASES.iter().filter(|(name, _)| arguments.wants(name)) {
        let begun = Instant::now();
        let ok = catch_unwind(AssertUnwindSafe(|| case(&mut stage))).is_ok();
        println!("test {name} ... {} ({} ms)", if ok { "ok" } else { "FAILED" }, begun.elapsed().as_millis());
        passed += usize::from(ok);
        failed.extend((!ok).then_some(name));
    }
    if let Some((_, words)) = stage.up.log().split_once("panicked at") {
        println!("muster panicked at{}", words.chars().take(2000).collect::<String>());
        failed.push(&"no_panic_in_the_log");
    }
    if !failed.is_empty() {
        println!("{}", stage.logs());
    }
    println!("\ntest result: {passed} passed; {} failed", failed.len());
    failed.iter().for_each(|name| println!("    {name}"));
    drop(stage);
    std::process::exit(i32::from(!failed.is_empty()));
}
