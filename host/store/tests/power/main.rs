//! What power cuts leave of the embedded store.
//!
//! A process of ours works on a store (its first opening, many groups of operations, closing in order
//! and not, opening again) while `recorder` notes every write, sync and change of a name that it asks
//! the kernel for, and every acknowledgement among them. At points of that record `disk` makes images
//! of what a disk may hold if the power failed there; `judge` opens each with the real store. A second
//! process then goes on from such an image, recorded too, so that cuts hit recoveries as well.
//!
//! Three plans are worked on: payments at random by many at once (`plan`), every operation that the
//! store's traits have, every step of a payment and what writes a store anew (`everything`, which fails where
//! one is missing), and deliveries that are pruned (`pruning`), which makes sled write most. `log` follows
//! what sled takes for safe of its log, and holds it against what was synced.
//!
//! The same images without the effect of `fdatasync`, of sled's own syncs, or of syncs of folders, have to
//! be found wanting: so each run shows that it would notice if the store left them out.
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

/// A test and its name.
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
    // In the words of Rust's own tests, so that a count of them counts these.
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
