//! A release: its archive, its bundled modules, and the install page, which leads from the archive to a live
//! payment.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use kassette_build::{Release, guests, host_target};
use serde_json::Value;
use tempfile::TempDir;

use crate::receiver::Receiver;
use crate::service::Service;
use crate::serving::{kassette, operator, prepare};

/// Bash code that runs before the page's blocks. System paths are below `$ROOT`, addresses use free ports, and no
/// provider is called.
const PRELUDE: &str = r#"
set -euo pipefail
mkdir -p "$ROOT"/etc/systemd/system "$ROOT"/usr/bin "$ROOT"/var/lib
PATH=$ROOT/usr/bin:$PATH
# As root these would change the machine.
useradd() { :; }
chown() { :; }
chmod() { # A file that root shares with the service's group is our user's alone here.
    [ "$1" != 640 ] || set -- 600 "${@:2}"
    command chmod "$@"
}
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
cp() {
    command cp "$@"
    sed -i 's|api\.mollie\.com|api.mollie.invalid|' "${@: -1}"
}
curl() {
    local given=("${@//https:\/\/pay.example.com/$BASE}")
    command curl --noproxy '*' "${given[@]//http:\/\/127.0.0.1:8081/$ADMIN}"
}
told() { sed -n 's|.*"'"$1"'": "\(.*\)".*|\1|p' "$ROOT/ready.json" | head -n 1; }
# What the units say, without systemd. Addresses are theirs.
systemctl() {
    local before line
    case $* in
        daemon-reload) ;;
        'enable --now kassette.socket kassette-admin.socket kassette' | \
            'start kassette.socket kassette-admin.socket kassette')
            sed -i 's|"127.0.0.1:808[01]"|"127.0.0.1:0"|' "$ROOT/etc/kassette/kassette.toml"
            line=$(sed -n 's|^ExecStart=||p' "$ROOT/etc/systemd/system/kassette.service")
            line=${line//\/usr\/bin/$ROOT/usr/bin}
            rm -f "$ROOT/ready.json"
            (umask 077 && cd / && exec env -i ${line//\/etc/$ROOT/etc} --ready-file "$ROOT/ready.json") 2>>"$ROOT/log.txt" &
            gateway=$!
            until [ -s "$ROOT/ready.json" ]; do kill -0 $gateway; sleep 0.05; done
            BASE=http://$(told listen)
            export KASSETTE_ADMIN_URL=$(told admin_url)
            ADMIN=${KASSETTE_ADMIN_URL%/admin/v1}
            ;;
        'stop kassette.socket kassette-admin.socket kassette')
            kill $gateway
            wait $gateway
            ;;
        'reload kassette')
            before=$(grep -c 'SIGHUP: taken over' "$ROOT/log.txt" || true)
            kill -HUP $gateway
            until [ "$(grep -c 'SIGHUP: taken over' "$ROOT/log.txt" || true)" -gt "$before" ]; do
                ! grep 'SIGHUP: not taken over' "$ROOT/log.txt" >&2
                sleep 0.05
            done
            ;;
        *) echo "nothing here knows systemctl $*" >&2; return 1 ;;
    esac
}
gateway=
trap '[ -z "$gateway" ] || kill -9 $gateway 2>/dev/null || true' EXIT
"#;

/// Runs after the page's block about the first live payment and repeats it, with a simulator as the provider of the
/// same account. The payment runs on `dev`, with copies of the configuration and of the store, because `serve`
/// accepts no simulator for live payments. The shop's endpoint leads to a receiver of the test.
const SIMULATED: &str = r#"
ENDPOINT=$(kassette endpoint list --merchant-id 1 --json | sed -n 's|.*"id": "\(.*\)".*|\1|p')
systemctl stop kassette.socket kassette-admin.socket kassette
simulated=$ROOT/simulated
mkdir "$simulated"
command cp -r "$ROOT/var/lib/kassette" "$simulated/data"
command cp -r "$ROOT/etc/kassette" "$simulated/config"
mv "$simulated/config/master.key" "$simulated/data"
rm "$simulated"/config/providers/mollie-live.*
kassette plugin install --bundled --into "$simulated/data/plugins"
rm "$ROOT/ready.json"
(cd / && exec "$ROOT/usr/bin/kassette" dev --no-watch --simulate mollie \
    --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --config "$simulated/config" --data-dir "$simulated/data" \
    --ready-file "$ROOT/ready.json") >"$ROOT/dev.txt" 2>&1 &
gateway=$!
until [ -s "$ROOT/ready.json" ]; do
    kill -0 $gateway || { cat "$ROOT/dev.txt"; exit 1; }
    sleep 0.05
done
BASE=http://$(told listen)
export KASSETTE_ADMIN_URL=$(told admin_url)
kassette endpoint update $ENDPOINT --url "$SHOP"
"#;

/// Pays the payment, then runs the checks that the page asks its reader to make.
const PAID: &str = r#"
MADE=$(ask $LIVE payments -d '{"order_id":"order-2","idempotency_key":"order-2-a","amount":"1.00","currency":"EUR","return_url":"https://shop.example/thanks"}')
PAYMENT=$(cut -d'"' -f4 <<<"$MADE")
CHECKOUT=$(sed 's|.*"checkout_url":"\([^"]*\)".*|\1|' <<<"$MADE")
curl -sS --fail -o /dev/null -H "Origin: $BASE" -d payment_method=ideal -d seen.ideal=mollie-live "$CHECKOUT/choose"
PAGE= # The start may go on behind a page that waits for it.
until [ -n "$PAGE" ]; do
    PAGE=$(kassette payment show $PAYMENT --json | sed -n 's|.*"redirect_url": "\(.*\)".*|\1|p')
done
curl -sS --fail -o /dev/null -d session=${PAGE##*/} -d outcome=approve ${PAGE%/*}
for _ in $(seq 1200); do
    ! kassette delivery list --endpoint-id $ENDPOINT --status delivered | grep -q payment.completed || break
    sleep 0.05
done
kassette payment list
kassette delivery list --endpoint-id $ENDPOINT
kassette work list
kill $gateway
wait $gateway
systemctl start kassette.socket kassette-admin.socket kassette
"#;

/// Expected output by a text that the block contains, in the order of the page.
const PRINTS: [(&str, &str); 11] = [
    ("tar -xzf", "kassette 0."),
    (
        "config check",
        ": 0 accounts, settings for 0 methods: all is well",
    ),
    ("enable --now", "provider.stripe"),
    (
        "outcome=approve",
        r#""status":"completed","settlement_status":"confirmed""#,
    ),
    ("outcome=approve", r#""test_mode":true"#),
    (
        "mollie.example",
        ": 1 accounts, settings for 0 methods: all is well",
    ),
    ("mollie.example", "mollie-live"),
    ("--policy @policy.json", "whsec_"),
    ("$LIVE methods", r#""status":"created""#),
    ("$LIVE methods", r#""test_mode":false"#),
    ("systemctl stop", "provider.stripe"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
}

/// The archive of this build. Replaces the archive of the previous run.
fn archive() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let release = Release {
            root: root(),
            program: Path::new(env!("CARGO_BIN_EXE_kassette")),
            modules: guests(),
            target: &host_target().unwrap(),
            compression: 1,
        };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("release");
        release.write(&folder).unwrap()
    })
}

/// A folder with the unpacked archive, and the path of the archive's top folder in it.
fn unpacked() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let done = Command::new("tar")
        .arg("-xzf")
        .arg(archive())
        .current_dir(folder.path())
        .status();
    assert!(done.unwrap().success());
    let name = archive().file_name().unwrap().to_str().unwrap();
    let inside = folder.path().join(name.strip_suffix(".tar.gz").unwrap());
    (folder, inside)
}

/// Files below a folder, by relative path.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => waiting.push(path),
                false => {
                    let path = path.strip_prefix(folder).unwrap();
                    found.insert(path.to_str().unwrap().to_owned());
                }
            }
        }
    }
    found
}

fn blocks() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("config/install.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    blocks
        .map(|rest| rest.split_once("```").unwrap().0.to_owned())
        .collect()
}

fn said(output: &Output) -> String {
    let told = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    told.concat()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs curl and openssl: .ci/run installs them and runs this"]
async fn the_page_leads_from_the_archive_on_a_clean_root_to_a_live_payment_and_its_event() {
    let receiver = Receiver::new().await;
    let machine = tempfile::tempdir().unwrap();
    let system = machine.path().join("system");
    std::fs::create_dir(&system).unwrap();
    let here = machine.path().join("downloads");
    std::fs::create_dir(&here).unwrap();
    let name = archive().file_name().unwrap();
    std::fs::copy(archive(), here.join(name)).unwrap();
    let sum = format!("{}.sha256", name.to_str().unwrap());
    std::fs::copy(archive().with_file_name(&sum), here.join(&sum)).unwrap();
    let blocks = blocks();
    let mut script = format!("{PRELUDE}\n");
    for (number, block) in blocks.iter().enumerate() {
        let block = ["/etc/", "/var/lib/", "/usr/bin/"]
            .iter()
            .fold(block.clone(), |block, path| {
                block.replace(path, &format!("{}{path}", system.display()))
            });
        let printed = system.join(format!("printed.{number}"));
        let printed = printed.display();
        script.push_str(&format!(
            "echo 'block {number}' >&2\n{{\n{block}}} >{printed}\n"
        ));
        if block.contains("$LIVE methods") {
            script.push_str(&format!(
                "{{\n{SIMULATED}}} >&2\n{{\n{block}{PAID}}} >{}\n",
                system.join("simulated.txt").display()
            ));
        }
    }
    let output = Command::new("timeout")
        .args(["300", "bash", "-c", &script])
        .current_dir(&here)
        .env("ROOT", &system)
        .env("SHOP", receiver.url())
        .env_remove("KASSETTE_OPERATOR_TOKEN")
        .env_remove("KASSETTE_MASTER_KEY")
        .env_remove("KASSETTE_ADMIN_URL")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let log = std::fs::read_to_string(system.join("log.txt")).unwrap_or_default();
    let printed: Vec<String> = (0..blocks.len())
        .map(|number| {
            let file = system.join(format!("printed.{number}"));
            std::fs::read_to_string(file).unwrap_or_default()
        })
        .collect();
    assert!(
        output.status.success(),
        "{}{}\n{log}",
        said(&output),
        printed.concat()
    );
    for (holds, expected) in PRINTS {
        let block = blocks.iter().position(|block| block.contains(holds));
        let told = &printed[block.unwrap_or_else(|| panic!("no block has {holds:?}"))];
        assert!(
            told.contains(expected),
            "{holds}: {expected} is not in {told}"
        );
    }
    for holds in ["enable --now", "systemctl stop"] {
        let block = blocks.iter().position(|block| block.contains(holds));
        let serving = printed[block.unwrap()].matches(" serving ").count();
        assert_eq!(serving, guests().len(), "every module serves: {holds}");
    }
    let simulated = std::fs::read_to_string(system.join("simulated.txt")).unwrap();
    for expected in [
        "\"id\":\"ideal\"",
        "completed",
        "confirmed",
        "payment.completed",
        "delivered",
        "No work.",
    ] {
        assert!(simulated.contains(expected), "{expected}: {simulated}");
    }
    let policy = blocks
        .iter()
        .position(|block| block.contains("--policy @policy.json"));
    let mut words = printed[policy.unwrap()].split_whitespace();
    let secret = words.rfind(|word| word.starts_with("whsec_"));
    let got = receiver.got();
    let completed = got.iter().find(|got| got.kind() == "payment.completed");
    let completed = completed.expect("the shop was told");
    assert!(completed.is_signed_by(secret.unwrap()));
    assert_eq!(completed.event()["data"]["test_mode"], false);
    let plugins = system.join("var/lib/kassette/plugins");
    assert_eq!(files(&plugins), BTreeSet::new(), "the folder stays empty");
    let mode = std::fs::metadata(&plugins).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // The second process, which took over, logged no error.
    let (_, second) = log.rsplit_once("stopped").unwrap();
    assert!(!second.contains("\"ERROR\""), "{second}");
}

#[test]
fn an_archive_holds_what_it_says_and_its_bill_names_every_crate_with_its_checksum() {
    let (_folder, inside) = unpacked();
    let sums = std::fs::read_to_string(inside.join("SHA256SUMS")).unwrap();
    let mut named: BTreeSet<String> = sums
        .lines()
        .map(|line| line.split_once("  ").unwrap().1.to_owned())
        .collect();
    named.insert("SHA256SUMS".into());
    assert_eq!(named, files(&inside));
    for expected in [
        "LICENSE",
        "config/install.md",
        "config/kassette.toml",
        "config/deploy/Containerfile",
        "config/deploy/kassette.service",
        "config/providers/stripe.example.toml",
    ] {
        assert!(named.contains(expected), "{expected}");
    }
    let modules = named.iter().filter(|path| path.starts_with("modules/"));
    assert_eq!(modules.count(), guests().len());

    let bill = std::fs::read(inside.join("kassette.cdx.json")).unwrap();
    let bill: Value = serde_json::from_slice(&bill).unwrap();
    let components = bill["components"].as_array().unwrap();
    let own = |name: &str| name.starts_with("kassette");
    for component in components {
        let name = component["name"].as_str().unwrap();
        let has = |field: &str| component[field].as_array().is_some_and(|it| !it.is_empty());
        assert!(has("licenses"), "{component}");
        assert_eq!(has("hashes"), !own(name), "{component}");
    }
    let there = |name: &str| components.iter().any(|it| it["name"] == name);
    // One crate is part of the program, two only of modules, and two of neither.
    assert!(there("wasmtime") && there("wit-bindgen") && there("kassette-method-ideal"));
    assert!(!there("proptest") && !there("redb"));

    // The program of a release is stripped.
    let symbols = |path: &Path| Command::new("nm").arg(path).output().unwrap().stdout;
    let built = symbols(Path::new(env!("CARGO_BIN_EXE_kassette")));
    assert!(!built.is_empty());
    assert_eq!(symbols(&inside.join("kassette")), b"");
}

/// Instructions of the container file with their arguments.
fn image(inside: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(inside.join("config/deploy/Containerfile")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, rest)| (name.to_owned(), rest.to_owned()))
        .collect()
}

#[test]
fn the_container_file_is_made_of_what_the_archive_holds_and_starts_the_server() {
    let (folder, inside) = unpacked();
    let image = image(&inside);
    let names: Vec<&str> = image.iter().map(|(name, _)| name.as_str()).collect();
    let order = [
        "FROM",
        "COPY",
        "RUN",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
    ];
    assert_eq!(names, order, "each is held to something here");
    let of = |name: &str| {
        let found = image.iter().find(|(known, _)| known == name);
        found.unwrap().1.as_str()
    };
    let list = |name: &str| serde_json::from_str::<Vec<String>>(of(name)).unwrap();

    // The image contains the archive's program at its entry point, executable for all users.
    let words: Vec<&str> = of("COPY").split(' ').collect();
    let [mode, source, target] = words[..] else {
        panic!("{words:?}");
    };
    assert_eq!(
        (mode, list("ENTRYPOINT")),
        ("--chmod=755", vec![target.to_owned()])
    );
    let version = Command::new(inside.join(source)).arg("--version").output();
    assert!(said(&version.unwrap()).starts_with("kassette 0."));

    // The folders are created with the image's user as owner, which the test leaves out: only root can set it.
    let (user, group) = of("USER").split_once(':').unwrap();
    let owned = format!("-o {user} -g {group} ");
    assert!(of("RUN").contains(&owned) && user != "0");
    let root = folder.path().join("image");
    let run = of("RUN")
        .replace(&owned, "")
        .replace(" /", &format!(" {}/", root.display()));
    assert!(
        Command::new("sh")
            .args(["-c", &run])
            .status()
            .unwrap()
            .success()
    );
    let below = |path: &str| root.join(path.trim_start_matches('/'));
    let mode = std::fs::metadata(below(of("VOLUME")))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700);

    // The container's command: the named configuration is valid and listens on the exposed port.
    let command = list("CMD");
    let [serve, config, etc] = &command[..] else {
        panic!("{command:?}");
    };
    assert_eq!((serve.as_str(), config.as_str()), ("serve", "--config"));
    let text = std::fs::read_to_string(inside.join("config/deploy/Containerfile")).unwrap();
    let data = of("VOLUME");
    let listen = format!("0.0.0.0:{}", of("EXPOSE"));
    for line in [
        format!("data_dir = \"{data}\""),
        format!("plugin_dir = \"{data}/plugins\""),
        format!("listen = \"{listen}\""),
        format!(
            "-v ./etc:{etc}:ro -v kassette:{data} -p {0}:{0}",
            of("EXPOSE")
        ),
    ] {
        assert!(text.contains(&line), "{line}");
    }
    let main = format!(
        "public_url = \"https://pay.example.com\"\ndata_dir = \"{0}\"\nplugin_dir = \"{0}/plugins\"\n\
         listen = \"{listen}\"\n",
        below(data).display()
    );
    let file = below(etc).join("kassette.toml");
    std::fs::write(&file, main).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut check = Command::new(inside.join(source));
    check.args(["config", "check", "--config"]).arg(below(etc));
    check.env(
        "KASSETTE_MASTER_KEY",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    );
    let checked = check.output().unwrap();
    assert!(checked.status.success(), "{}", said(&checked));
    assert_eq!(of("STOPSIGNAL"), "SIGTERM", "as `serve` takes it");
    assert_eq!(of("FROM"), "debian:stable-slim");
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// State and digest of each slot in the admin API, by slot name.
async fn slots(service: &Service, token: &str) -> BTreeMap<String, (String, String)> {
    let ask = client().get(format!("{}/plugins", service.admin_url()));
    let answer = ask.bearer_auth(token).send().await.unwrap();
    let answer: Value = answer.json().await.unwrap();
    let told = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let listed = answer["plugins"].as_array().unwrap().iter();
    listed
        .map(|it| {
            let state = (told(&it["state"]), told(&it["active"]["digest"]));
            (told(&it["slot"]), state)
        })
        .collect()
}

#[tokio::test]
async fn a_released_program_serves_its_modules_from_an_empty_folder_and_a_file_goes_before_them() {
    let (_unpacked, inside) = unpacked();
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), "sandbox = false");
    let plugins = folder.path().join("plugins");
    for name in files(&plugins) {
        std::fs::remove_file(plugins.join(name)).unwrap();
    }
    let token = operator(folder.path());
    let start = async || {
        let mut command = Command::new(inside.join("kassette"));
        command.args(["serve", "--config"]);
        command.arg(folder.path().join("config"));
        command
            .arg("--ready-file")
            .arg(folder.path().join("ready.json"));
        command
            .env_remove("RUST_LOG")
            .env_remove("KASSETTE_MASTER_KEY");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Service::start(folder.path(), command).await
    };
    let digest = |bytes: &[u8]| kassette_domain::id::Digest::hash(bytes).to_string();
    let mut expected: BTreeMap<String, (String, String)> = guests()
        .iter()
        .map(|built| {
            let bytes = std::fs::read(&built.path).unwrap();
            (built.slot.clone(), ("serving".to_owned(), digest(&bytes)))
        })
        .collect();
    let service = start().await;
    assert_eq!(slots(&service, &token).await, expected);
    service.stop().await;

    // Adding a custom section without meaning makes another version of the module.
    let ideal = guests().iter().find(|built| built.slot == "method.ideal");
    let mut own = std::fs::read(&ideal.unwrap().path).unwrap();
    own.extend_from_slice(b"\0\x05\x04mine");
    expected.insert("method.ideal".into(), ("serving".into(), digest(&own)));
    let file = plugins.join("method.ideal.wasm");
    std::fs::write(&file, &own).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let service = start().await;
    assert_eq!(slots(&service, &token).await, expected);
    service.stop().await;

    // Neither version is compiled again, and the operator's version remains without its file.
    std::fs::remove_file(&file).unwrap();
    let service = start().await;
    assert_eq!(slots(&service, &token).await, expected);
    let metrics = format!("{}/metrics", service.admin_url().replace("/admin/v1", ""));
    let metrics = client().get(metrics).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let missed = metrics
        .lines()
        .find(|line| line.starts_with("kassette_plugin_cache_total{") && line.contains("\"miss\""));
    assert!(missed.is_none_or(|line| line.ends_with(" 0")), "{missed:?}");
    service.stop().await;
}

#[test]
fn a_program_writes_its_modules_out_and_replaces_no_other_version() {
    let (folder, inside) = unpacked();
    let into = folder.path().join("plugins");
    let install = |program: &Path| {
        let mut command = Command::new(program);
        command.args(["plugin", "install", "--bundled", "--into"]);
        command.arg(&into).output().unwrap()
    };
    let released = inside.join("kassette");
    let done = install(&released);
    assert!(done.status.success(), "{}", said(&done));
    let written: BTreeMap<String, Vec<u8>> = files(&into)
        .into_iter()
        .map(|name| (name.clone(), std::fs::read(into.join(name)).unwrap()))
        .collect();
    let expected: BTreeMap<String, Vec<u8>> = guests()
        .iter()
        .map(|built| {
            (
                format!("{}.wasm", built.slot),
                std::fs::read(&built.path).unwrap(),
            )
        })
        .collect();
    assert!(written == expected, "{:?}", written.keys());
    assert!(
        install(&released).status.success(),
        "once more changes nothing"
    );

    let own = into.join("method.ideal.wasm");
    std::fs::write(&own, "an operator's").unwrap();
    std::fs::remove_file(into.join("method.paypal.wasm")).unwrap();
    let refused = install(&released);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said(&refused).contains("method.ideal.wasm"),
        "{}",
        said(&refused)
    );
    assert_eq!(std::fs::read(&own).unwrap(), b"an operator's");
    assert!(!into.join("method.paypal.wasm").exists());

    let bare = install(Path::new(env!("CARGO_BIN_EXE_kassette")));
    assert_eq!(bare.status.code(), Some(1));
    assert!(
        said(&bare).contains("brings no modules along"),
        "{}",
        said(&bare)
    );
}

#[tokio::test]
async fn a_program_without_modules_serves_an_empty_folder_and_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), "sandbox = false");
    let plugins = folder.path().join("plugins");
    for name in files(&plugins) {
        std::fs::remove_file(plugins.join(name)).unwrap();
    }
    // A file name without a folder is relative to the working directory.
    let mut command = kassette(folder.path(), "serve");
    command.args(["--ready-file", "ready.json"]);
    command.current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let service = Service::start(folder.path(), command).await;
    service
        .says("there are no modules, so nothing can be paid", 1)
        .await;
    service.stop().await;
}
