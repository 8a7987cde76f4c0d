use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::*;
use crate::limits::{Limits, PoolSizes};

const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

fn key(byte: u8) -> MacKey {
    MacKey::from_bytes(Zeroizing::new([byte; 32]))
}

fn engines() -> Engines {
    let sizes = PoolSizes {
        methods: 2,
        providers: 2,
    };
    Engines::new(sizes, &Limits::default()).unwrap()
}

struct Bench {
    engines: Engines,
    parent: tempfile::TempDir,
    digest: Digest,
}

impl Bench {
    fn new() -> Self {
        Self {
            engines: engines(),
            parent: tempfile::tempdir().unwrap(),
            digest: Digest::hash(EMPTY),
        }
    }

    fn folder(&self) -> PathBuf {
        self.parent.path().join("compiled")
    }

    fn open(&self) -> Artifacts {
        self.open_with(key(1), MOST_BYTES)
    }

    fn open_with(&self, key: MacKey, most_bytes: u64) -> Artifacts {
        let config = CacheConfig {
            folder: self.folder(),
            key,
            most_bytes,
        };
        Artifacts::open(Some(&config), self.engines.compiler())
    }

    fn code(&self) -> Code<'static> {
        Code::compiled(self.engines.compiler().precompile_component(EMPTY).unwrap())
    }

    fn filled(&self) -> Artifacts {
        let artifacts = self.open();
        artifacts.put(&self.digest, &self.code());
        artifacts
    }

    fn has(&self, artifacts: &Artifacts) -> bool {
        artifacts.get(&self.engines, &self.digest).is_some()
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    fn file(&self) -> PathBuf {
        let [file] = &self.files()[..] else {
            panic!("one file is there")
        };
        file.clone()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn what_was_compiled_is_loaded_after_a_restart_and_is_private() {
    let bench = Bench::new();
    assert!(!bench.has(&bench.open()));
    bench.filled();
    assert!(bench.has(&bench.open()));
    assert_eq!((mode(&bench.folder()), mode(&bench.file())), (0o700, 0o600));
}

#[test]
fn an_artifact_with_any_byte_altered_is_removed() {
    let bench = Bench::new();
    let artifacts = bench.filled();
    let whole = fs::read(bench.file()).unwrap();
    let places = [0, 7, 8, 39, 40, 41, whole.len() / 2, whole.len() - 1];
    for place in places {
        let path = bench.file();
        let mut altered = whole.clone();
        altered[place] ^= 1;
        fs::write(&path, altered).unwrap();
        assert!(!bench.has(&artifacts), "byte {place}");
        assert!(!path.exists(), "byte {place}");
        bench.filled();
        assert!(bench.has(&artifacts));
    }
}

#[test]
fn a_truncated_or_longer_artifact_is_removed() {
    let bench = Bench::new();
    let artifacts = bench.filled();
    let whole = fs::read(bench.file()).unwrap();
    let mut longer = whole.clone();
    longer.push(0);
    for wrong in [
        &[][..],
        &whole[..20],
        &whole[..40],
        &whole[..whole.len() - 1],
        &longer,
    ] {
        let path = bench.file();
        fs::write(&path, wrong).unwrap();
        assert!(!bench.has(&artifacts), "{} bytes", wrong.len());
        assert!(!path.exists());
        bench.filled();
    }
}

#[test]
fn a_planted_artifact_is_never_loaded() {
    let bench = Bench::new();
    let artifacts = bench.filled();
    let path = bench.file();
    // Valid machine code without a MAC, with a MAC of another key, and with the MAC for another module.
    let bare = bench.code().bytes().to_vec();
    let settings = Settings::new(bench.engines.compiler());
    let sealed = |key: &MacKey, digest: &Digest| {
        let head = Seal::new(key).close(digest, &settings, &bench.code());
        [&head[..], bench.code().bytes()].concat()
    };
    let planted = [
        bare,
        sealed(&key(2), &bench.digest),
        sealed(&key(1), &Digest::hash(b"another module")),
    ];
    for file in planted {
        fs::write(&path, file).unwrap();
        assert!(!bench.has(&artifacts));
        assert!(!path.exists());
    }
    fs::write(&path, sealed(&key(1), &bench.digest)).unwrap();
    assert!(bench.has(&artifacts), "the test seals as the cache does");
}

#[test]
fn a_link_a_pipe_or_a_folder_in_an_artifact_s_place_is_removed() {
    let bench = Bench::new();
    let artifacts = bench.filled();
    let path = bench.file();
    let elsewhere = bench.parent.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(
        !bench.has(&artifacts),
        "not even where it leads to a good one"
    );
    assert!(!path.exists() && elsewhere.exists());
    fs::create_dir(&path).unwrap();
    assert!(!bench.has(&artifacts));
    assert!(!path.exists());
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, 0o600.into(), 0).unwrap();
    assert!(!bench.has(&artifacts));
    assert!(!path.exists());
}

#[test]
fn another_master_key_reads_nothing() {
    let bench = Bench::new();
    bench.filled();
    let other = bench.open_with(key(2), MOST_BYTES);
    assert!(!bench.has(&other));
    assert_eq!(bench.files(), Vec::<PathBuf>::new());
}

#[test]
fn other_settings_of_the_engine_never_meet_each_other_s_artifacts() {
    let mut bench = Bench::new();
    bench.filled();
    let settings = Settings::new(bench.engines.compiler());
    assert!(
        settings == Settings::new(engines().compiler()),
        "the same in every engine"
    );
    let compiler = crate::engine::compiler().unwrap();
    assert!(
        settings == Settings::new(&compiler),
        "and in the child that compiles"
    );
    let mut config = wasmtime::Config::new();
    config.epoch_interruption(false);
    bench.engines = Engines::alike(Engine::new(&config).unwrap());
    assert!(settings != Settings::new(bench.engines.compiler()));
    let artifacts = bench.open();
    assert!(!bench.has(&artifacts));
    // A file renamed to the name for these settings fails the MAC check.
    let wanted = artifacts.0.as_ref().unwrap().name(&bench.digest);
    fs::rename(bench.file(), bench.folder().join(wanted)).unwrap();
    assert!(!bench.has(&artifacts));
    assert_eq!(bench.files(), Vec::<PathBuf>::new());
}

#[test]
fn a_folder_that_others_may_enter_is_not_used() {
    let bench = Bench::new();
    bench.filled();
    fs::set_permissions(bench.folder(), fs::Permissions::from_mode(0o750)).unwrap();
    let artifacts = bench.open();
    assert!(!bench.has(&artifacts));
    artifacts.put(&bench.digest, &bench.code());
    assert_eq!(bench.files().len(), 1, "and nothing in it is touched");
    fs::set_permissions(bench.folder(), fs::Permissions::from_mode(0o700)).unwrap();
    assert!(bench.has(&bench.open()));
}

#[test]
fn a_link_to_a_folder_is_not_used() {
    let bench = Bench::new();
    let elsewhere = bench.parent.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, bench.folder()).unwrap();
    let artifacts = bench.open();
    artifacts.put(&bench.digest, &bench.code());
    assert!(!bench.has(&artifacts));
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[test]
fn what_no_version_needs_and_what_is_too_much_goes() {
    let bench = Bench::new();
    let artifacts = bench.open();
    let digests: Vec<Digest> = (0..4_u8).map(|byte| Digest::hash(&[byte])).collect();
    for digest in &digests {
        artifacts.put(digest, &bench.code());
    }
    fs::write(bench.folder().join("stray"), "anything").unwrap();
    artifacts.retain(&digests[..3]);
    assert_eq!(bench.files().len(), 3);
    assert!(artifacts.get(&bench.engines, &digests[3]).is_none());
    // Space for two: the last of three is removed.
    let size = fs::metadata(&bench.files()[0]).unwrap().len();
    let small = bench.open_with(key(1), size * 2 + 1);
    small.retain(&digests[..3]);
    assert!(small.get(&bench.engines, &digests[0]).is_some());
    assert!(small.get(&bench.engines, &digests[1]).is_some());
    assert!(small.get(&bench.engines, &digests[2]).is_none());
}

#[test]
fn half_a_file_of_a_crash_is_removed_at_the_next_start() {
    let bench = Bench::new();
    bench.filled();
    fs::write(bench.folder().join(".left.1.0"), "half a file").unwrap();
    assert!(bench.has(&bench.open()));
    assert_eq!(bench.files().len(), 1);
}

#[test]
fn writers_at_the_same_time_leave_whole_files() {
    let bench = Bench::new();
    let (code, first) = (bench.code(), bench.open());
    let second = bench.open();
    std::thread::scope(|scope| {
        for artifacts in [&first, &second] {
            scope.spawn(|| {
                for _ in 0..50 {
                    artifacts.put(&bench.digest, &code);
                    // The other writer has removed nothing and written the same bytes: the file is always
                    // complete.
                    assert!(bench.has(artifacts));
                }
            });
        }
    });
    assert_eq!(bench.files().len(), 1);
}

#[test]
fn a_key_is_not_shown() {
    assert_eq!(format!("{:?}", key(7)), "MacKey(***)");
}
