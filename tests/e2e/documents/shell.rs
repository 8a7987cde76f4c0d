//! Runs the documents' shell blocks in order, with bash against a gateway of `dev`.
//!
//! A block runs unchanged except for what [`Page`] replaces: addresses, system folders, IDs. Commands that need
//! root (users, services) do nothing. A gateway that a block starts is stopped once it serves.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::markdown::documents;
use super::{elsewhere, is_shell, root};
use crate::harness::Server;
use crate::pages::PICTURE;

/// Bash code before each block.
const PRELUDE: &str = r#"
set -euo pipefail
# As root these would change the machine.
useradd() { :; }
chown() { :; }
chmod() { # A file that root shares with the service's group is our user's alone here.
    [ "$1" != 640 ] || set -- 600 "${@:2}"
    command chmod "$@"
}
systemctl() { :; }
sudo() { shift 2; "$@"; }
install() {
    local given=()
    while [ $# -gt 0 ]; do
        case $1 in
            -o | -g) shift 2 ;;
            *) given+=("$1"); shift ;;
        esac
    done
    command install "${given[@]}"
}
# A gateway serves until it is told to stop: here once it has said that it serves.
kassette() {
    if [ "$1" != serve ]; then
        command kassette "$@"
        return
    fi
    local ready=
    [[ "$*" =~ --ready-file\ ([^ ]+) ]] && ready=${BASH_REMATCH[1]}
    if [ -z "$ready" ]; then
        ready=$SCRATCH/ready.json
        set -- "$@" --ready-file "$ready"
    fi
    rm -f "$ready"
    command kassette "$@" &
    local gateway=$!
    until [ -s "$ready" ]; do
        kill -0 "$gateway"
        sleep 0.05
    done
    kill "$gateway"
    wait "$gateway"
}
"#;

/// Command that prints the ID of the first work item about surplus money.
const SURPLUS: &str = r#"$(curl -s -H "Authorization: Bearer $KASSETTE_OPERATOR_TOKEN" "$KASSETTE_ADMIN_URL/work" |
    python3 -c 'import json, sys
print(next(line["id"] for line in json.load(sys.stdin)["work"] if line["kind"] == "surplus"))')"#;

/// A document and the requirements of its blocks.
struct Page {
    name: &'static str,
    /// Texts and their replacements, applied in order.
    replaced: Vec<(&'static str, String)>,
    /// Working folders of blocks that contain a text, relative to the repository. Other blocks run in its root.
    inside: &'static [(&'static str, &'static str)],
    /// Output that a block with a text must contain.
    prints: &'static [(&'static str, &'static str)],
}

struct Made {
    approved: String,
    declined: String,
    open: String,
    hanging: String,
    delivery: String,
    operator: String,
}

fn id(payment: &Value) -> String {
    payment["payment_id"].as_str().unwrap().to_owned()
}

async fn made(server: &Server) -> Made {
    let key = server.test_key();
    let mut held = Vec::new();
    for _ in 0..2 {
        let (payment, url) = server.started(key, "ideal", json!({})).await;
        server.pay(&url, "review").await.expect(303);
        server.until(key, &payment, "review").await;
        held.push(id(&payment));
    }
    let (open, _) = server.started(key, "ideal", json!({})).await;
    let (hanging, url) = server.started(key, "credit_card", json!({})).await;
    server.fault("sandbox-test", "needs-capture", 1).await;
    server.fault("sandbox-test", "capture-late", 1).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(key, &hanging, "processing").await;
    let endpoint = endpoint(server);
    let delivered = async || {
        let path = format!("/deliveries?endpoint_id={endpoint}&status=delivered");
        let found = server.admin("GET", &path, None).await.expect(200).json();
        found["deliveries"][0]["id"].as_str().map(str::to_owned)
    };
    let delivery = server.wait_for("a delivery", delivered).await;
    let operator = json!({ "name": "leaver", "role": "viewer" });
    let operator = server.admin("POST", "/operators", Some(&operator)).await;
    let operator = operator.expect(201).json();
    let declined = held.pop().unwrap();
    Made {
        approved: held.pop().unwrap(),
        declined,
        open: id(&open),
        hanging: id(&hanging),
        delivery,
        operator: operator["operator_id"].as_str().unwrap().to_owned(),
    }
}

/// ID of the endpoint whose receiver `dev` runs.
fn endpoint(server: &Server) -> &str {
    server.ready()["merchants"][0]["webhook_endpoint_id"]
        .as_str()
        .unwrap()
}

fn pages(server: &Server, made: &Made, system: &Path) -> Vec<Page> {
    let base = server.base().strip_prefix("http://").unwrap();
    let below = |folder: &str| format!("{}{folder}", system.display());
    let hooks = vec![
        ("ENDPOINT_ID", endpoint(server).to_owned()),
        ("DELIVERY_ID", made.delivery.clone()),
    ];
    vec![
        Page {
            name: "README.md",
            replaced: vec![("localhost:8080", base.to_owned())],
            inside: &[],
            prints: &[(
                "outcome=approve",
                r#""status":"completed","settlement_status":"confirmed""#,
            )],
        },
        Page {
            name: "config/README.md",
            replaced: vec![
                ("/run/", below("/run/")),
                ("/etc/", below("/etc/")),
                ("/var/lib/", below("/var/lib/")),
                // The previous block's backup.
                ("/backups/kassette-2026-11-21", below("/backups/kassette-*")),
                ("/backups/kassette-$(", below("/backups/kassette-$(")),
                (
                    "KASSETTE_OPERATOR_TOKEN=…",
                    format!("KASSETTE_OPERATOR_TOKEN={}", server.operator_token()),
                ),
                ("age -r …", "cat".to_owned()),
                ("OPERATOR\n", format!("{}\n", made.operator)),
                (
                    "PAYMENT --decision approve",
                    format!("{} --decision approve", made.approved),
                ),
                (
                    "PAYMENT --decision decline",
                    format!("{} --decision decline", made.declined),
                ),
                ("to-review PAYMENT", format!("to-review {}", made.hanging)),
                (
                    "payment refund PAYMENT",
                    format!("payment refund {}", made.approved),
                ),
                // The work item that the decline has opened.
                ("work refund WORK", format!("work refund {SURPLUS}")),
                ("PAYMENT", made.open.clone()),
            ],
            inside: &[("useradd", "config"), ("cp deploy/", "config")],
            prints: &[
                ("serve --config config", "ko_"),
                ("plugin keygen", "is signed by"),
                ("merchant create", "whsec_"),
                ("operator create --name ann", "is removed"),
                ("plugin replay", "newly_impossible"),
                ("payment review", "surplus"),
                ("kassette restore", "all is whole"),
                ("kassette verify --config", "all is whole"),
            ],
        },
        Page {
            name: "config/connect.md",
            replaced: vec![],
            inside: &[],
            prints: &[("connect-code create", "kc_")],
        },
        Page {
            name: "config/resellers.md",
            replaced: vec![],
            inside: &[],
            prints: &[
                ("reseller create", "kr_live_"),
                ("consent-code create", "km_"),
            ],
        },
        Page {
            name: "config/webhooks.md",
            replaced: hooks,
            inside: &[],
            prints: &[("endpoint create", "whsec_"), ("endpoint rotate", "whsec_")],
        },
    ]
}

/// Copies the repository's configuration without its fixed ports.
fn configuration(folder: &Path) {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        std::fs::set_permissions(to, Permissions::from_mode(0o755)).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &target);
            } else {
                std::fs::write(&target, std::fs::read(entry.path()).unwrap()).unwrap();
                std::fs::set_permissions(&target, Permissions::from_mode(0o644)).unwrap();
            }
        }
    }
    copy(&root().join("config"), folder);
    let main = folder.join("kassette.toml");
    let text = std::fs::read_to_string(&main).unwrap();
    let text = text.replace("127.0.0.1:8080", "127.0.0.1:0");
    std::fs::write(main, text.replace("127.0.0.1:8081", "127.0.0.1:0")).unwrap();
}

/// Prepares the folders that a reader has before the page's first block.
async fn prepare(page: &Page, folder: &Path, server: &Server, system: &Path) {
    configuration(&folder.join("config"));
    if page.name == "README.md" {
        // A module's author works next to `dev`, which has created the data directory.
        let data = server.plugin_dir().parent().unwrap().to_owned();
        symlink(data, folder.join("data")).unwrap();
        let module = server.plugin_dir().join("method.ideal.wasm");
        std::fs::copy(module, folder.join("my-ideal.wasm")).unwrap();
    }
    if page.name == "config/README.md" {
        // Files that an operator would pass to the commands.
        let module = server.plugin_dir().join("method.ideal.wasm");
        std::fs::copy(module, folder.join("my-ideal.wasm")).unwrap();
        std::fs::write(folder.join("ideal.toml"), "").unwrap();
        std::fs::write(folder.join("policy.json"), r#"{"max_usd":"5.00"}"#).unwrap();
        let picture = BASE64_STANDARD.decode(PICTURE).unwrap();
        std::fs::write(folder.join("shop.png"), picture).unwrap();
        let module = server.plugin_dir().join("provider.sandbox.wasm");
        std::fs::copy(module, folder.join("my-sandbox.wasm")).unwrap();
        // A new merchant does not have a domain yet.
        let domain = "/merchants/1/domains/shop.example";
        server.admin("DELETE", domain, None).await.expect(204);
        // Another machine with the configuration and the master key, but without a store.
        let etc = system.join("etc/kassette");
        configuration(&etc);
        let main = etc.join("kassette.toml");
        let text = std::fs::read_to_string(&main).unwrap();
        let text = text.replace("\"../data/master.key\"", "\"master.key\"");
        std::fs::write(main, text).unwrap();
        let key = server.plugin_dir().parent().unwrap().join("master.key");
        std::fs::copy(key, etc.join("master.key")).unwrap();
        std::fs::set_permissions(etc.join("master.key"), Permissions::from_mode(0o600)).unwrap();
        for made in [
            "backups",
            "run",
            "var/lib",
            "etc/kassette/tls",
            "etc/data/plugins",
            "etc/systemd/system",
            "renewed",
        ] {
            std::fs::create_dir_all(system.join(made)).unwrap();
        }
        for made in ["fullchain.pem", "privkey.pem"] {
            std::fs::write(system.join("renewed").join(made), "").unwrap();
        }
    }
}

/// Runs a block and returns its output.
pub(super) fn run(
    script: &str,
    folder: &Path,
    server: &Server,
    system: &Path,
) -> Result<String, String> {
    let path = format!(
        "{}:{}",
        system.join("bin").display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("bash")
        .args(["-c", &format!("{PRELUDE}\n{script}")])
        .current_dir(folder)
        .env("PATH", path)
        .env("SCRATCH", system)
        .env("KEY", server.test_key())
        .env("KASSETTE_ADMIN_URL", server.admin_base())
        .env("KASSETTE_OPERATOR_TOKEN", server.operator_token())
        .env("RENEWED_LINEAGE", system.join("renewed"))
        .env_remove("KASSETTE_MASTER_KEY")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(told);
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{}: {told}{why}", output.status))
}

fn replaced(text: &str, page: &Page) -> String {
    let mut text = text.to_owned();
    for (shown, real) in &page.replaced {
        text = text.replace(shown, real);
    }
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs curl and openssl: .ci/run installs them and runs this"]
async fn what_the_documents_have_their_readers_run_does_what_they_say() {
    let server = Server::fresh().await;
    let made = made(&server).await;
    let machine = tempfile::tempdir().unwrap();
    let system = machine.path().join("system");
    std::fs::create_dir_all(system.join("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_kassette"), system.join("bin/kassette")).unwrap();
    let pages = pages(&server, &made, &system);
    for document in documents() {
        let mut blocks = document.blocks.iter();
        let runs = |block: &&super::Block| {
            is_shell(block)
                && block.mark.is_none()
                && elsewhere(&document.name, &block.language).is_none()
        };
        let Some(page) = pages.iter().find(|page| page.name == document.name) else {
            assert!(
                !blocks.any(|block| runs(&block)),
                "no page runs {}",
                document.name
            );
            continue;
        };
        let folder: PathBuf = machine.path().join(page.name.replace('/', "-"));
        std::fs::create_dir_all(&folder).unwrap();
        prepare(page, &folder, &server, &system).await;
        for (shown, _) in &page.replaced {
            let mut all = document.blocks.iter().filter(runs);
            let is_shown = all.any(|block| block.text.contains(shown));
            assert!(is_shown, "{}: no block has {shown:?}", page.name);
        }
        let mut unseen: Vec<&str> = page.prints.iter().map(|(holds, _)| *holds).collect();
        for block in document.blocks.iter().filter(runs) {
            let inside = page
                .inside
                .iter()
                .find(|(holds, _)| block.text.contains(holds));
            let here = inside.map_or(folder.clone(), |(_, inside)| folder.join(inside));
            let script = replaced(&block.text, page);
            let told = tokio::task::block_in_place(|| run(&script, &here, &server, &system));
            let told = told.unwrap_or_else(|why| panic!("{}: {script}\n{why}", block.at));
            for (holds, prints) in page.prints {
                if block.text.contains(holds) {
                    assert!(
                        told.contains(prints),
                        "{}: {prints} is not in {told}",
                        block.at
                    );
                    unseen.retain(|seen| seen != holds);
                }
            }
        }
        assert!(unseen.is_empty(), "{}: no block has {unseen:?}", page.name);
    }
}
