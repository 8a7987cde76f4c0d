//! Compiled modules are cached, and the cache is used only if this host wrote it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::harness::Server;

/// Files of the cache, sorted by name.
fn artifacts(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("data/compiled")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Numbers of cache hits, misses and refused entries.
async fn counted(server: &Server) -> [u64; 3] {
    let metrics = server.metrics().await;
    ["hit", "miss", "refused"].map(|outcome| {
        let name = format!("kassette_plugin_cache_total{{outcome=\"{outcome}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        line.map_or(0, |count| count.trim().parse().unwrap())
    })
}

#[tokio::test]
async fn a_restart_loads_what_was_compiled_and_compiles_what_was_tampered_with() {
    let folder = Server::fresh().await.stop().await;
    std::fs::remove_dir_all(folder.path().join("data/compiled")).unwrap();
    let server = Server::in_folder(folder).await;
    let modules = kassette_build::guests_with(&["sandbox"]).count();
    let all = u64::try_from(modules).unwrap();
    assert_eq!(counted(&server).await, [0, all, 0]);
    let folder = server.stop().await;
    let files = artifacts(folder.path());
    assert_eq!(files.len(), modules);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.path().join("data/compiled")), 0o700);

    let server = Server::in_folder(folder).await;
    assert_eq!(counted(&server).await, [all, 0, 0]);
    let folder = server.stop().await;

    // One file is altered in its last byte, one is replaced by another module's, one is truncated.
    let mut altered = std::fs::read(&files[0]).unwrap();
    *altered.last_mut().unwrap() ^= 1;
    std::fs::write(&files[0], altered).unwrap();
    std::fs::copy(&files[2], &files[1]).unwrap();
    std::fs::write(&files[3], &std::fs::read(&files[3]).unwrap()[..1000]).unwrap();
    let server = Server::in_folder(folder).await;
    assert_eq!(counted(&server).await, [all - 3, 0, 3]);
    let plugins = server.admin("GET", "/plugins?limit=100", None).await;
    let plugins = plugins.expect(200).json();
    let plugins = plugins["plugins"].as_array().unwrap();
    assert_eq!(plugins.len(), modules);
    assert!(plugins.iter().all(|plugin| plugin["state"] == "serving"));
    let folder = server.stop().await;

    // With this mode, other users could have written to the cache: the server ignores it and still starts.
    let cache = folder.path().join("data/compiled");
    std::fs::set_permissions(&cache, std::fs::Permissions::from_mode(0o770)).unwrap();
    let server = Server::in_folder(folder).await;
    assert_eq!(counted(&server).await, [0, 0, 0]);
    assert!(
        server.log().contains("run chmod 700 on it"),
        "{}",
        server.log()
    );
}
