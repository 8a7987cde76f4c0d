//! A configuration folder as `config check` and `serve` read it. An input consists of files, separated by lines
//! `%%`. Each starts with its path.
//!
//! An account's `[secrets]` may contain [`SECRET`], which no message may repeat.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use kassette_gateway::workers::settings_problems;
use memchr::memmem;

use crate::{talk, world};

const SECRET: &str = "zq-s3cret-of-a-vendor";

/// Folders to which an input may write, in addition to `kassette.toml`.
const FOLDERS: [&str; 3] = ["methods/", "providers/", "releases/"];

thread_local! {
    static FOLDER: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

pub(crate) fn run(input: &[u8]) {
    FOLDER.with_borrow_mut(|kept| {
        let folder = kept.take().unwrap_or_else(world::folder);
        let text = lay(folder.path(), input);
        check(folder.path(), &text, is_secret(input));
        for entry in fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => fs::remove_dir_all(path),
                false => fs::remove_file(path),
            }
            .unwrap();
        }
        *kept = Some(folder);
    });
}

/// Writes the files and returns the text of `kassette.toml`.
fn lay(folder: &Path, input: &[u8]) -> String {
    let mut main = String::new();
    for section in talk::split(input) {
        let end = memchr::memchr(b'\n', section).unwrap_or(section.len());
        let (name, text) = section.split_at(end);
        let text = text.get(1..).unwrap_or_default();
        let Ok(name) = std::str::from_utf8(name) else {
            continue;
        };
        let plain = |file: &str| {
            let fits = (1..64).contains(&file.len()) && file != "." && file != "..";
            fits && !file.contains(['/', '\0'])
        };
        let below = FOLDERS
            .iter()
            .any(|start| name.strip_prefix(start).is_some_and(plain));
        if name != "kassette.toml" && !below {
            continue;
        }
        if name == "kassette.toml" {
            main = String::from_utf8_lossy(text).into_owned();
        }
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    main
}

/// Whether [`SECRET`] occurs only as the value of secrets. Names and other values may be repeated.
fn is_secret(input: &[u8]) -> bool {
    memmem::find_iter(input, SECRET).all(|at| {
        let (before, after) = (&input[..at], &input[at + SECRET.len()..]);
        let table = memmem::rfind(before, b"\n[").map_or(0, |at| at + 1);
        let valued = before.ends_with(b"value = \"") && after.starts_with(b"\"\n");
        valued && before[table..].starts_with(b"[secrets.")
    })
}

fn check(folder: &Path, main: &str, secret: bool) {
    let mut problems = kassette_server::fuzzing::config_problems(folder);
    // The tests' environment has none, and a file would need a certain mode.
    problems.retain(|(_, why)| !why.starts_with("no master key"));
    let settings = kassette_server::fuzzing::settings(folder);
    let told = || format!("{problems:?}\n{main}");
    talk::show(told);
    for (line, why) in &problems {
        assert!(
            !(why.is_empty() || secret && why.contains(SECRET)),
            "{}",
            told()
        );
        assert_ne!(*line, Some(0), "{}", told());
    }
    match settings {
        // Everything that `serve` rejects must be a problem in `config check`.
        Err(why) => {
            assert!(!(secret && why.contains(SECRET)), "{why}");
            assert!(!problems.is_empty(), "only serve refuses it: {why}\n{main}");
        }
        Ok(settings) => {
            assert!(
                settings.public_url.starts_with("https://"),
                "{}",
                settings.public_url
            );
            let shown = format!("{settings:?}");
            assert!(!(secret && shown.contains(SECRET)), "{shown}");
            for account in settings.accounts.values() {
                for (currency, (least, most)) in
                    account.methods.values().flat_map(|terms| &terms.limits)
                {
                    let ordered = least.zip(*most).is_none_or(|(least, most)| least <= most);
                    assert!(ordered, "{currency:?}: {}", told());
                }
            }
            let wrong = settings_problems(&settings, &[], None);
            assert!(
                wrong.is_empty() || !problems.is_empty(),
                "only the gateway refuses it: {wrong:?}"
            );
        }
    }
}
