//! Tests which damage a power cut can do to the embedded store.
//!
//! A process works on a store (first opening, many groups of operations, regular and immediate ends, reopening)
//! while `recorder` records every write, sync and name change that it requests from the kernel, and every
//! acknowledgement. For points in that record, `disk` creates images that a disk may contain if the power failed
//! there, and `judge` opens each with the real store. A second, also recorded process continues from such an
//! image, so that recoveries are interrupted as well.
//!
//! There are three plans: concurrent random payments (`plan`); every operation of the store's traits, every step
//! of a payment and every rewrite of the store (`everything`, which fails if one is missing); and deletion of old
//! deliveries (`pruning`), which makes sled write the most. `log` compares the part of sled's log that sled
//! assumes to be durable with the part that was synced.
//!
//! Images without the effect of `fdatasync`, of sled's own syncs, or of folder syncs must show losses. This proves
//! that each run would detect missing syncs.
//!
//! `cargo test --release -p kassette-store --test power -- --images 3000 --deliveries 3000 --seed 7`
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::allow_attributes,
    reason = "a test"
)]

mod disk;
mod driver;
mod everything;
mod judge;
mod log;
mod options;
mod plan;
mod pruning;
mod random;
mod record;
mod recorder;
mod tests;

use std::time::Instant;

use crate::options::Options;

/// A test's name and function.
type Test = (&'static str, fn(&Options));

fn main() {
    if let Ok(told) = std::env::var(driver::TOLD) {
        return driver::main(&told);
    }
    let options = Options::parse(std::env::args().skip(1));
    let tests: [Test; 7] = [
        (
            "what_was_acknowledged_outlives_a_power_cut",
            tests::what_was_acknowledged_outlives_a_power_cut,
        ),
        (
            "every_operation_outlives_a_power_cut",
            tests::every_operation_outlives_a_power_cut,
        ),
        (
            "what_is_left_while_deliveries_are_pruned_outlives_a_power_cut",
            tests::what_is_left_while_deliveries_are_pruned_outlives_a_power_cut,
        ),
        (
            "a_snapshot_has_its_name_before_the_database_is_synced",
            tests::a_snapshot_has_its_name_before_the_database_is_synced,
        ),
        (
            "no_cut_at_a_start_costs_anything",
            tests::no_cut_at_a_start_costs_anything,
        ),
        (
            "a_store_without_data_syncs_is_found_to_lose",
            tests::a_store_without_data_syncs_is_found_to_lose,
        ),
        (
            "a_store_without_folder_syncs_is_found_to_lose",
            tests::a_store_without_folder_syncs_is_found_to_lose,
        ),
    ];
    let chosen: Vec<_> = tests
        .iter()
        .filter(|(name, _)| options.wants(name))
        .collect();
    if options.list {
        for (name, _) in chosen {
            println!("{name}: test");
        }
        return;
    }
    // In the format of Rust's own tests, so that tools that count tests include these.
    println!("\nrunning {} tests", chosen.len());
    let began = Instant::now();
    let mut failed = 0;
    for (name, test) in &chosen {
        let held = std::panic::catch_unwind(|| test(&options)).is_ok();
        println!("test {name} ... {}", if held { "ok" } else { "FAILED" });
        failed += usize::from(!held);
    }
    println!(
        "\ntest result: {}. {} passed; {failed} failed; 0 ignored; 0 measured; {} filtered out; \
         finished in {:.2}s\n",
        if failed == 0 { "ok" } else { "FAILED" },
        chosen.len() - failed,
        tests.len() - chosen.len(),
        began.elapsed().as_secs_f64(),
    );
    std::process::exit(i32::from(failed > 0));
}
