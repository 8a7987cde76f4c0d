//! Runs the story of config/operators.md: its commands in order, with the payers' actions between them.
//!
//! The output of a command must have the same words as the page, except IDs, times and figures.
//! `KASSETTE_WRITE_OUTPUTS` writes the output into the page instead.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::markdown::{documents, root};
use super::shell::run;
use crate::fallback::{SECOND, second_provider};
use crate::harness::Server;
use crate::swap::{guest, slot};

const PAGE: &str = "config/operators.md";
const IDEAL: &str = "method.ideal";
/// Maximum number of payments until a candidate is rolled back whose payers never pay.
const MOST: usize = 200;

/// Makes payments of these amounts, whose payers pay, or do `at_second` at the second account. Returns those of
/// the second account.
async fn pay(server: &Server, amounts: &[&str], at_second: &str) -> Vec<Value> {
    let mut second = Vec::new();
    for amount in amounts {
        let more = json!({ "amount": amount });
        let (payment, url) = server.started(server.test_key(), "ideal", more).await;
        let attempts = server.attempts(&payment).await;
        let is_second = attempts[0]["provider_id"] == SECOND;
        let outcome = if is_second { at_second } else { "approve" };
        server.pay(&url, outcome).await.expect(303);
        second.extend(is_second.then_some(payment));
    }
    second
}

/// Makes payments until the candidate is rolled back. Returns those that it moved to the second account.
async fn regress(server: &Server) -> Vec<Value> {
    let mut moved = Vec::new();
    for _ in 0..MOST {
        if slot(server, IDEAL).await["candidate"].is_null() {
            let told = async || {
                let path = "/audit?action=plugin.rollback&limit=1";
                let found = server.admin("GET", path, None).await.expect(200).json();
                (!found["entries"].as_array().unwrap().is_empty()).then_some(())
            };
            server.wait_for("the rollback's line", told).await;
            return moved;
        }
        moved.extend(pay(server, &["12.50"], "decline").await);
    }
    panic!(
        "{} payments failed and the candidate still decides",
        moved.len()
    );
}

/// Removes an account's percentage of successful starts, which is shown only after the account's first starts.
fn without_health(text: &str) -> String {
    let parts: Vec<&str> = text.split(" % work").collect();
    let (last, parts) = parts.split_last().unwrap();
    let before = |part: &&str| part[..part.rfind(", ").unwrap()].to_owned();
    parts
        .iter()
        .map(before)
        .chain([(*last).to_owned()])
        .collect()
}

/// Words of a table or of JSON, sorted, because figures affect where a cell wraps. A word with a digit (a figure,
/// a time or an ID) becomes `#`.
fn words(text: &str) -> Vec<&str> {
    let is_between = |c: char| c.is_whitespace() || ('\u{2500}'..='\u{257f}').contains(&c);
    let words = text.split(is_between).filter(|word| !word.is_empty());
    let masked = words.map(|word| match word.contains(|c: char| c.is_ascii_digit()) {
        true => "#",
        false => word,
    });
    let mut words: Vec<&str> = masked.collect();
    words.sort_unstable();
    words
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_story_happens_as_it_is_told() {
    let server = Server::fresh().await;
    let _second = second_provider(&server).await;
    let machine = tempfile::tempdir().unwrap();
    let (system, folder) = (machine.path().join("system"), machine.path().join("here"));
    std::fs::create_dir_all(system.join("bin")).unwrap();
    std::fs::create_dir(&folder).unwrap();
    symlink(env!("CARGO_BIN_EXE_kassette"), system.join("bin/kassette")).unwrap();
    let module = guest("kassette-method-ideal-small").await;
    std::fs::copy(module, folder.join("my-ideal.wasm")).unwrap();

    let page = documents().into_iter().find(|page| page.name == PAGE);
    let page = page.unwrap();
    let (mut moved, mut outputs) = (Vec::new(), Vec::new());
    let mut blocks = page.blocks.iter();
    while let Some(block) = blocks.next() {
        assert_eq!(block.language, "sh", "{}", block.at);
        let shown = blocks.next().filter(|shown| shown.language == "text");
        let shown = shown.unwrap_or_else(|| panic!("{}: what does it print?", block.at));
        let amounts = ["12.50", "19.99", "20.00", "49.90", "120.00"];
        if block.text.contains("plugin replay") {
            pay(&server, &amounts, "approve").await;
        }
        if block.text.contains("plugin diff") {
            pay(&server, &amounts, "approve").await;
            // Each payment was decided at its creation and at its start.
            let all = async || {
                let diff = server.admin("GET", "/plugins/method.ideal/diff", None);
                let diff = diff.await.expect(200).json();
                (diff["decisions"] == 10 && diff["queued"] == 0).then_some(())
            };
            server.wait_for("the shadow to have been asked", all).await;
        }
        if block.text.contains("audit list") {
            moved = regress(&server).await;
        }
        let id = moved
            .last()
            .and_then(|payment| payment["payment_id"].as_str());
        let script = block.text.replace("PAYMENT", id.unwrap_or("PAYMENT"));
        let told = tokio::task::block_in_place(|| run(&script, &folder, &server, &system));
        let told = told.unwrap_or_else(|why| panic!("{}: {why}", block.at));
        outputs.push((block, shown, told));
    }
    if std::env::var_os("KASSETTE_WRITE_OUTPUTS").is_some() {
        let path = root().join(PAGE);
        let text = std::fs::read_to_string(&path).unwrap();
        let (mut written, mut rest) = (String::new(), text.as_str());
        for (_, shown, told) in &outputs {
            let (before, after) = rest
                .split_once(&format!("```text\n{}```", shown.text))
                .unwrap();
            written += &format!("{before}```text\n{}\n```", told.trim_end());
            rest = after;
        }
        std::fs::write(path, written + rest).unwrap();
        return;
    }
    for (block, shown, told) in outputs {
        let [shown, now] = [&shown.text, &told].map(|text| without_health(text));
        let same = words(&shown) == words(&now);
        assert!(same, "{}: it prints\n{told}", block.at);
    }
}
