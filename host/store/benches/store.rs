//! The store by itself: `cargo bench -p kassette-store [-- --quick] [--payments COUNT] [--json FILE]`.
//! It writes about two gigabytes to the folder of temporary files; `TMPDIR` names another disk.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    missing_docs,
    clippy::allow_attributes
)]

#[path = "../../../tests/bench/figure.rs"]
mod figure;
#[path = "../../../tests/bench/store/mod.rs"]
mod store;

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq(store::ARGUMENT).is_some() {
        return store::fill(arguments);
    }
    let (mut json, mut payments, mut quick) = (None, Some(1_000_000), false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--payments" => payments = arguments.next().map(|count| count.parse().unwrap()),
            "--no-size" => payments = None,
            "--json" => json = arguments.next(),
            // Cargo says so to every benchmark.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    let plan = store::Plan {
        rounds: if quick { 1 } else { 5 },
        seconds: if quick { 1.0 } else { 2.0 },
        payments,
    };
    let folder = tempfile::tempdir().unwrap();
    let figures = store::measure(plan, folder.path());
    println!("\n{}", figure::table(&figures));
    if let Some(path) = json {
        std::fs::write(path, figure::json(&figures)).unwrap();
    }
    let held = figures.iter().all(figure::Figure::holds);
    println!(
        "{}",
        if held {
            "every goal holds"
        } else {
            "a goal does not hold"
        }
    );
}
