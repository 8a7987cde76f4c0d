//! Checks what the documents show: blocks are run or parsed, the binary parses the commands, and paths, links and
//! names must exist. A shell block that no test machine can run is marked in its document with `<!-- not run: …
//! -->` and one of [`REASONS`].

mod markdown;
mod operators;
mod shell;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use hmac::{Hmac, KeyInit as _, Mac as _};
use kassette_domain::id::EventId;
use kassette_domain::secret::Secret;
use kassette_domain::webhook::sign_standard;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use self::markdown::{Block, Document, documents, root};
use crate::harness::shared;

/// Allowed reasons not to run a shell block, each with texts of which the block must contain one.
const REASONS: [(&str, &[&str]); 5] = [
    (
        "needs a refund whose outcome stayed unknown",
        &["refund settle"],
    ),
    ("needs a rate that was refused", &["rates accept"]),
    ("needs a database server", &["createdb"]),
    (
        "builds for minutes",
        &["cargo run", "cargo test", "cargo bench"],
    ),
    (
        "needs the network",
        &["cargo install", "npm install", "apt-get"],
    ),
];

/// Blocks that another test runs, compares or compiles: document, language and test.
const ELSEWHERE: [(&str, &str, &str); 20] = [
    ("config/install.md", "sh", "tests/e2e/install.rs"),
    ("config/connect.md", "php", "tests/e2e/connect_plugin.rs"),
    (
        "config/resellers.md",
        "rust",
        "tests/e2e/reseller_clients.rs",
    ),
    (
        "config/resellers.md",
        "python",
        "tests/e2e/reseller_clients.rs",
    ),
    (
        "config/resellers.md",
        "php",
        "tests/e2e/reseller_clients.rs",
    ),
    ("config/resellers.md", "js", "tests/e2e/reseller_clients.rs"),
    ("config/resellers.md", "text", "tests/e2e/documents.rs"),
    (
        "config/operators.md",
        "sh",
        "tests/e2e/documents/operators.rs",
    ),
    (
        "config/operators.md",
        "text",
        "tests/e2e/documents/operators.rs",
    ),
    ("config/payments.md", "python", "tests/e2e/receivers.rs"),
    ("config/webhooks.md", "rust", "tests/e2e/receivers.rs"),
    ("config/webhooks.md", "python", "tests/e2e/receivers.rs"),
    ("config/webhooks.md", "php", "tests/e2e/receivers.rs"),
    ("config/webhooks.md", "js", "tests/e2e/receivers.rs"),
    ("config/webhooks.md", "text", "tests/e2e/documents.rs"),
    ("wit/README.md", "rust", "plugins/sdk/src/lib.rs"),
    ("wit/README.md", "rust,ignore", "host/kit/tests/outside.rs"),
    ("wit/README.md", "toml", "host/kit/tests/outside.rs"),
    ("config/README.md", "yaml", ".ci/run"),
    ("host/README.md", "", ".ci/run"),
];

/// Example bodies: a field that only this body has, and the name of its schema in /openapi.json.
const BODIES: [(&str, &str); 3] = [
    ("api_key", "ConnectExchangeResponse"),
    ("requires_wordpress", "Release"),
    ("data", "Event"),
];

/// The document that shows JSON and requests of providers.
const OF_VENDORS: &str = "providers/README.md";

fn blocks() -> impl Iterator<Item = (String, Block)> {
    documents().into_iter().flat_map(|document| {
        let name = document.name.clone();
        document
            .blocks
            .into_iter()
            .map(move |block| (name.clone(), block))
    })
}

/// The entry of [`ELSEWHERE`] for a document and language, if there is one.
fn elsewhere(
    document: &str,
    language: &str,
) -> Option<&'static (&'static str, &'static str, &'static str)> {
    let mut known = ELSEWHERE.iter();
    known.find(|(of, kind, _)| (*of, *kind) == (document, language))
}

fn is_shell(block: &Block) -> bool {
    ["sh", "console", "bash"].contains(&block.language.as_str())
}

/// The binary, without the settings in the environment.
fn kassette() -> Command {
    let mut kassette = Command::new(env!("CARGO_BIN_EXE_kassette"));
    kassette
        .env_remove("KASSETTE_OPERATOR_TOKEN")
        .env_remove("KASSETTE_MASTER_KEY");
    kassette
}

/// Whether the binary accepts the command line. A `--help` at its end makes it parse everything before.
fn parses(command: &str) -> Result<(), String> {
    // Drops command substitutions, which are parts of arguments, and cuts off the commands that follow.
    let command = match command.split_once("$(") {
        Some((before, rest)) => format!(
            "{before}{}",
            rest.split_once(')').map_or("", |(_, rest)| rest)
        ),
        None => command.to_owned(),
    };
    let own = command.split(['|', '>', '#', ';', '&']).next();
    let mut words = Vec::new();
    for (place, part) in own.unwrap_or_default().split('"').enumerate() {
        match place % 2 {
            0 => words.extend(part.split_whitespace()),
            _ => words.push(part),
        }
    }
    let asked = kassette().args(&words[1..]).arg("--help").output();
    let asked = asked.map_err(|error| error.to_string())?;
    if asked.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&asked.stderr).into_owned())
}

#[test]
fn every_block_is_run_or_read_or_says_why_not() {
    let mut stale: BTreeSet<_> = ELSEWHERE
        .iter()
        .map(|(document, language, _)| (*document, *language))
        .collect();
    for (document, block) in blocks() {
        let language = block.language.as_str();
        let reason = block
            .mark
            .as_deref()
            .and_then(|mark| mark.strip_prefix("not run: "));
        if let Some(reason) = reason {
            assert!(
                is_shell(&block),
                "{}: only shell blocks are marked",
                block.at
            );
            let known = REASONS.iter().find(|(known, _)| *known == reason);
            let (_, signs) =
                known.unwrap_or_else(|| panic!("{}: {reason:?} is no reason", block.at));
            assert!(
                signs.iter().any(|sign| block.text.contains(sign)),
                "{}: {reason:?} does not hold any more: run it",
                block.at
            );
            continue;
        }
        let found = elsewhere(&document, language);
        let is_here = is_shell(&block)
            || language == "json"
            || (language == "toml" && document == "config/README.md");
        let Some((of, kind, test)) = found else {
            assert!(
                is_here,
                "{}: no test knows what to do with {language:?}",
                block.at
            );
            continue;
        };
        let test = root().join(test);
        let text = std::fs::read_to_string(&test)
            .unwrap_or_else(|error| panic!("{}: {error}", test.display()));
        let page = Path::new(of).file_name().unwrap().to_str().unwrap();
        assert!(text.contains(page), "{} does not know {of}", test.display());
        stale.remove(&(*of, *kind));
    }
    assert!(stale.is_empty(), "there are no such blocks: {stale:?}");
}

#[test]
fn blocks_that_are_not_run_name_what_is_there() {
    let metadata = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let mut targets: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let of_it = targets
            .entry(package["name"].as_str().unwrap())
            .or_default();
        for target in package["targets"].as_array().unwrap() {
            of_it.insert((
                target["kind"][0].as_str().unwrap(),
                target["name"].as_str().unwrap(),
            ));
        }
    }
    for (_, block) in blocks().filter(|(_, block)| is_shell(block) && block.mark.is_some()) {
        let syntax = Command::new("sh")
            .args(["-n", "-c", &block.text])
            .output()
            .unwrap();
        assert!(
            syntax.status.success(),
            "{}: {}",
            block.at,
            String::from_utf8_lossy(&syntax.stderr)
        );
        let text = block.text.replace("\\\n", " ");
        for line in text.lines() {
            let Some((_, cargo)) = line.split_once("cargo ") else {
                continue;
            };
            let own = cargo.split([';', '|', '&', '#']).next().unwrap();
            let own = own.split(" -- ").next().unwrap();
            let words: Vec<&str> = own.split_whitespace().collect();
            let after = |flag: &str| -> Vec<&str> {
                let pairs = words.windows(2);
                pairs
                    .filter(|two| two[0] == flag)
                    .map(|two| two[1])
                    .collect()
            };
            let packages = after("-p");
            assert!(
                words[0] != "run" || packages.len() < 2,
                "{}: cargo run takes one -p: {line}",
                block.at
            );
            for package in &packages {
                assert!(
                    targets.contains_key(package),
                    "{}: {package} is no package",
                    block.at
                );
            }
            for kind in ["test", "example", "bench"] {
                for name in after(&format!("--{kind}")) {
                    let mut known = targets
                        .iter()
                        .filter(|(package, _)| packages.is_empty() || packages.contains(package));
                    assert!(
                        known.any(|(_, targets)| targets.contains(&(kind, name))),
                        "{}: there is no {kind} {name} in {packages:?}",
                        block.at
                    );
                }
            }
        }
    }
}

#[test]
fn every_command_is_one_that_the_binary_knows() {
    for document in documents() {
        for span in &document.spans {
            if span.text.starts_with("kassette ") {
                parses(&span.text)
                    .unwrap_or_else(|why| panic!("{}: `{}`: {why}", span.at, span.text));
            }
        }
        for block in document.blocks.iter().filter(|block| is_shell(block)) {
            let text = block.text.replace("\\\n", " ");
            for line in text.lines().map(str::trim) {
                if line.starts_with("kassette ") {
                    parses(line).unwrap_or_else(|why| panic!("{}: {line}: {why}", block.at));
                }
            }
        }
    }
    assert!(
        parses("kassette payment list --stauts review").is_err(),
        "the check looks"
    );
}

/// Collects the options of all commands from their help.
fn options(command: &[&str], found: &mut BTreeSet<String>) {
    let help = kassette().args(command).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let words = help.split(|c: char| c.is_whitespace() || ",[]<>=".contains(c));
    found.extend(
        words
            .filter(|word| word.starts_with("--"))
            .map(str::to_owned),
    );
    let (_, commands) = help.split_once("Commands:\n").unwrap_or_default();
    for line in commands.lines().take_while(|line| !line.is_empty()) {
        // Lines that are indented further continue a command's description.
        let name = line
            .strip_prefix("  ")
            .filter(|line| !line.starts_with(' '));
        let name = name.and_then(|line| line.split_whitespace().next());
        if let Some(name) = name.filter(|name| *name != "help") {
            options(&[command, &[name]].concat(), found);
        }
    }
}

#[test]
fn every_option_that_operators_read_of_is_one_of_a_command() {
    let mut known = BTreeSet::new();
    options(&[], &mut known);
    assert!(
        known.contains("--ready-file") && known.contains("--vouch"),
        "{known:?}"
    );
    for document in documents()
        .iter()
        .filter(|document| document.name.starts_with("config/"))
    {
        for span in document
            .spans
            .iter()
            .filter(|span| span.text.starts_with("--"))
        {
            let option = span.text.split([' ', '=']).next().unwrap();
            assert!(
                known.contains(option),
                "{}: no command has {option}",
                span.at
            );
        }
    }
}

#[test]
fn every_link_and_every_path_leads_somewhere() {
    let documents = documents();
    let anchors: BTreeMap<&str, &[String]> = documents
        .iter()
        .map(|document| (document.name.as_str(), &document.anchors[..]))
        .collect();
    for document in &documents {
        let folder = Path::new(&document.name).parent().unwrap();
        for link in &document.links {
            if link.text.starts_with("https://") {
                continue;
            }
            let (path, anchor) = link.text.split_once('#').unwrap_or((&link.text, ""));
            let target = match path {
                "" => document.name.clone(),
                path => plain(&folder.join(path)),
            };
            assert!(
                root().join(&target).exists(),
                "{}: there is no {target}",
                link.at
            );
            if !anchor.is_empty() {
                let known = anchors.get(target.as_str()).copied().unwrap_or_default();
                assert!(
                    known.iter().any(|known| known == anchor),
                    "{}: {target} has no heading {anchor}: {known:?}",
                    link.at
                );
            }
        }
        for span in &document.spans {
            let Some(path) = as_path(&span.text) else {
                continue;
            };
            // Folders that a path may be relative to.
            let bases = [
                "",
                folder.to_str().unwrap(),
                "host",
                "host/server",
                "host/server/src",
            ]
            .map(|base| root().join(base));
            let is_there = bases.iter().any(|base| base.join(path).exists());
            let first = path.split('/').next().unwrap();
            let is_made = ["data", "target"].contains(&first);
            let is_ours = !is_made && bases.iter().any(|base| base.join(first).exists());
            assert!(is_there || !is_ours, "{}: there is no {path}", span.at);
        }
    }
}

/// Resolves `..` without reading the file system.
fn plain(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain.to_str().unwrap().to_owned()
}

/// Returns the span if it looks like a relative path: names separated by slashes.
fn as_path(span: &str) -> Option<&str> {
    let of_names = span
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
    (of_names && span.contains('/') && !span.starts_with('/')).then_some(span)
}

#[test]
fn the_contributors_page_names_what_its_files_hold() {
    let documents = documents();
    let page = documents
        .iter()
        .find(|document| document.name == "host/README.md")
        .unwrap();
    let host = root().join("host");
    for row in page.prose.lines().filter(|line| line.starts_with("| ")) {
        let code: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let files: Vec<PathBuf> = code
            .iter()
            .filter(|code| code.ends_with(".rs"))
            .flat_map(|code| [host.join(code), host.join("server/src").join(code)])
            .filter(|path| path.exists())
            .collect();
        if files.is_empty() {
            continue;
        }
        let sources: String = files
            .iter()
            .map(|file| std::fs::read_to_string(file).unwrap())
            .collect();
        let is_name = |code: &&str| {
            code.chars()
                .all(|c| c.is_ascii_alphanumeric() || "_:".contains(c))
        };
        for name in code.into_iter().filter(is_name) {
            let last = name.rsplit("::").next().unwrap();
            assert!(
                sources.contains(last),
                "host/README.md: {name} is not in {files:?}"
            );
        }
    }
}

#[tokio::test]
async fn every_request_is_one_that_a_listener_takes() {
    let server = shared().await;
    let admin = ["/admin/v1/", "/livez", "/readyz", "/metrics"];
    let public = ["/api/v1/", "/openapi.json", "/docs", "/.well-known/"];
    let mut asked = 0;
    for document in documents() {
        for span in &document.spans {
            let text = span.text.replace("{base_url}", "");
            let (method, path) = match text.split_once(' ') {
                Some((method @ ("GET" | "POST" | "PUT" | "PATCH" | "DELETE"), path)) => {
                    (method, path)
                }
                _ => ("GET", text.as_str()),
            };
            let path = path.split(['?', ' ', '[']).next().unwrap();
            let is_of = |roots: &[&str]| roots.iter().any(|root| path.starts_with(root));
            // Address of a shop, which the server calls.
            let of_shop = path.contains("/.well-known/") || path.contains("/wp-json/");
            let base = match path {
                _ if of_shop => continue,
                _ if document.name == OF_VENDORS && !path.starts_with("/admin/") => continue,
                _ if is_of(&admin) => server.admin_root(),
                _ if is_of(&public) => server.base(),
                _ => {
                    assert_eq!(method, "GET", "{}: {text} is at no listener", span.at);
                    assert!(
                        !text.starts_with("GET "),
                        "{}: {text} is at no listener",
                        span.at
                    );
                    continue;
                }
            };
            let path: Vec<&str> = path
                .split('/')
                .map(|part| if part.starts_with('{') { "1" } else { part })
                .collect();
            let url = format!("{base}{}", path.join("/"));
            // Sent without a credential, so that an existing path refuses the request before it has an effect.
            let answer = server
                .send(server.http.request(method.parse().unwrap(), url))
                .await;
            let gone = answer.status == 404 && answer.text.contains("nothing at this path");
            assert!(
                !gone && answer.status != 405,
                "{}: {text}: {}",
                span.at,
                answer.text
            );
            asked += 1;
        }
    }
    assert!(asked > 10, "{asked}");
}

#[tokio::test]
async fn examples_in_json_are_as_the_api_describes_them() {
    let server = shared().await;
    let url = format!("{}/openapi.json", server.base());
    let api = server.send(server.http.get(url)).await.expect(200).json();
    let mut seen = BTreeSet::new();
    for (document, block) in blocks().filter(|(_, block)| block.language == "json") {
        let body: Value = serde_json::from_str(&block.text)
            .unwrap_or_else(|error| panic!("{}: {error}", block.at));
        if document == OF_VENDORS {
            continue;
        }
        let found = BODIES.iter().find(|(field, _)| body.get(field).is_some());
        let (_, name) = found.unwrap_or_else(|| panic!("{}: of what is this?", block.at));
        let schema = &api["components"]["schemas"][name];
        is_of(&api, schema, &body, &format!("{}: {name}", block.at));
        seen.insert(*name);
    }
    assert_eq!(seen.len(), BODIES.len(), "{seen:?}");
}

/// Asserts that the body has all required fields of the schema and no unknown ones, recursively.
fn is_of(api: &Value, schema: &Value, body: &Value, at: &str) {
    let schema = match schema["$ref"].as_str() {
        Some(reference) => api.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    let (Some(fields), Some(body)) = (schema["properties"].as_object(), body.as_object()) else {
        return;
    };
    for (name, value) in body {
        let field = fields
            .get(name)
            .unwrap_or_else(|| panic!("{at} has no {name}"));
        is_of(api, field, value, &format!("{at}.{name}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(body.contains_key(name.as_str().unwrap()), "{at} has {name}");
    }
}

fn sources() -> String {
    let mut text = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    let mut folders = vec![
        root().join("host"),
        root().join("tests"),
        root().join("plugins/sdk/src"),
    ];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let skipped = path.ends_with("node_modules") || path.ends_with("target");
                folders.extend((!skipped).then_some(path));
            } else if path
                .extension()
                .is_some_and(|ending| ["rs", "mjs"].iter().any(|known| ending == *known))
            {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

#[test]
fn variables_and_metrics_are_those_of_the_sources() {
    let sources = sources();
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .map(str::to_owned)
            .collect()
    };
    let known = words(&sources);
    let families = root().join("host/server/src/telemetry");
    let families = ["families.rs", "certificates.rs", "../status/facts.rs"]
        .map(|file| std::fs::read_to_string(families.join(file)).unwrap())
        .concat();
    let families = words(&families);
    for document in documents() {
        let blocks = document.blocks.iter();
        let blocks = blocks.filter(|block| is_shell(block) || block.language == "yaml");
        let text: String = blocks.map(|block| block.text.as_str()).collect();
        for word in words(&(document.prose.clone() + &text)) {
            if word.starts_with("KASSETTE_") {
                assert!(
                    known.contains(&word),
                    "{}: no source knows {word}",
                    document.name
                );
            }
            let is_metric = word.starts_with("kassette_") && document.name.starts_with("config/");
            let family = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|end| word.strip_suffix(end))
                .unwrap_or(&word);
            let is_role = document.prose.contains(&format!("CREATE ROLE {word} "));
            if is_metric && !is_role && !is_code_of_a_shop(&document, &word) {
                assert!(
                    families.contains(family),
                    "{}: there is no metric {word}",
                    document.name
                );
            }
        }
    }
}

/// Values of a test vector by name.
fn vector(shown: &Block) -> BTreeMap<&str, &str> {
    let lines = shown.text.lines();
    let words = lines.filter_map(|line| line.split_once(' '));
    words
        .map(|(name, word)| (name, word.trim_start()))
        .collect()
}

/// Lower-case hex HMAC-SHA256.
fn signature(key: &str, message: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(message.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

#[test]
fn what_resellers_sign_is_shown_as_it_is_made() {
    let mut shown = blocks()
        .filter(|(document, block)| document == "config/resellers.md" && block.language == "text");
    let (_, signed) = shown.next().unwrap();
    let (_, shown) = shown.next().unwrap();
    let lines: Vec<&str> = signed.text.lines().collect();
    let [method, target, time, nonce, digest] = lines[..] else {
        panic!("{}: five lines", signed.at);
    };
    assert_eq!((method, target), ("POST", "/api/v1/reseller/payments"));
    assert!(time.len() == 10 && time.parse::<u32>().is_ok(), "{time}");
    assert!((16..=80).contains(&nonce.len()), "{nonce}");
    let vector = vector(&shown);
    assert_eq!(digest, hex::encode(Sha256::digest(vector["body"])));
    let made = signature(vector["key"], &lines.join("\n"));
    assert_eq!(made, vector["signature"], "{}", shown.at);
}

#[tokio::test]
async fn the_codes_that_a_shop_meets_have_the_statuses_that_are_shown() {
    let page = documents();
    let page = page.iter().find(|page| page.name == "config/payments.md");
    let server = shared().await;
    let url = format!("{}/openapi.json", server.base());
    let document = server.http.get(url).send().await.unwrap();
    let document = document.text().await.unwrap();
    let mut shown = 0;
    for row in page.unwrap().prose.lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, status, codes, ..] = cells[..] else {
            continue;
        };
        if status.parse::<u16>().is_err() {
            continue;
        }
        for code in codes.split(", ").filter(|code| !code.is_empty()) {
            let listed = format!("| {code} | {status} |");
            assert!(document.contains(&listed), "{listed}");
            shown += 1;
        }
    }
    assert!(shown > 10, "{shown}");
}

#[test]
fn the_event_that_is_shown_with_its_signature_verifies() {
    let shown = blocks()
        .find(|(document, block)| document == "config/webhooks.md" && block.language == "text");
    let (_, shown) = shown.unwrap();
    let vector = vector(&shown);
    let (id, body) = (vector["id"], vector["body"]);
    let message = format!("{}.{id}.{body}", vector["timestamp"]);
    let made = signature(vector["secret"], &message);
    assert_eq!(format!("v1={made}"), vector["signature"], "{}", shown.at);
    let secret = Secret::new(vector["secret"]);
    let (timestamp, event) = (
        vector["timestamp"].parse().unwrap(),
        EventId::parse(id).unwrap(),
    );
    let standard = sign_standard([&secret].into_iter(), timestamp, event, body.as_bytes());
    assert_eq!(standard, vector["standard"], "{}", shown.at);
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["id"], id);
}

#[tokio::test]
async fn the_page_says_how_much_of_the_disk_stays_free() {
    let page = documents();
    let page = page.iter().find(|page| page.name == "config/README.md");
    let metrics = shared().await.metrics().await;
    let reserved = metrics
        .lines()
        .find_map(|line| line.strip_prefix("kassette_store_disk_reserved_bytes "))
        .unwrap();
    let said = format!(
        "less than {} MiB free on the disk",
        reserved.parse::<u64>().unwrap() >> 20
    );
    assert!(page.unwrap().prose.contains(&said), "{said}");
}

/// Whether the word occurs in a PHP block: functions of the shop's plugin have the same prefix as metrics.
fn is_code_of_a_shop(document: &Document, word: &str) -> bool {
    let mut shown = document
        .blocks
        .iter()
        .filter(|block| block.language == "php");
    shown.any(|block| block.text.contains(word))
}

/// Files shown in config/README.md, in order; in each, a text to replace and its replacement.
const FILES: [(&str, &str, &str); 5] = [
    // A date in the past, even if the machine's clock is wrong.
    ("rates.toml", "2026-11-25", "2020-01-02"),
    ("methods/ideal.toml", "", ""),
    (
        "providers/sandbox-eu.toml",
        "[methods.ideal]",
        "[secrets.client-id]\nenv = \"SANDBOX_CLIENT_SECRET\"\n[secrets.callback-secret]\nenv = \"SANDBOX_CLIENT_SECRET\"\n\n[methods.ideal]",
    ),
    (
        "releases/1.4.2.toml",
        "\"…\"",
        "\"0f4e2d1c3b5a69788796a5b4c3d2e1f00f4e2d1c3b5a69788796a5b4c3d2e1f0\"",
    ),
    // Completes the abbreviated value.
    (
        "kassette.toml",
        "…",
        "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ),
];

#[test]
fn the_configuration_that_operators_read_is_one_that_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    crate::serving::prepare(folder.path(), "[rates]\necb = true\nfile = \"rates.toml\"");
    let config = folder.path().join("config");
    let blocks = blocks()
        .filter(|(document, block)| document == "config/README.md" && block.language == "toml");
    let blocks: Vec<Block> = blocks.map(|(_, block)| block).collect();
    assert_eq!(blocks.len(), FILES.len());
    for (block, (file, shown, whole)) in blocks.iter().zip(FILES) {
        let path = config.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = match shown {
            "" => block.text.clone(),
            shown => block.text.replace(shown, whole),
        };
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{before}\n{text}")).unwrap();
    }
    let check = |secret: &str| -> Value {
        let output = crate::serving::kassette(folder.path(), "config check --json")
            .env("SANDBOX_CLIENT_SECRET", secret)
            .output()
            .unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let found = check("00112233445566778899aabbccddeeff");
    assert_eq!(found["problems"], serde_json::json!([]), "{found}");
    assert_eq!(found["warnings"], serde_json::json!([]), "{found}");
    assert_eq!(found["accounts"], 1, "{found}");
}
