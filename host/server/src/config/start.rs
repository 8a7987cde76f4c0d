//! Requirements of a start beyond the text of the configuration: folders, keys, certificates, addresses. Both
//! `config check` and `serve` check them.

use kassette_domain::secret::Secret;
use kassette_store::sled::MasterKey;

use super::{Config, ConfigError, access, line_of};
use crate::files;
use crate::listen::tls_acceptor;

/// Returns the requirements of `serve` that are not met.
pub(crate) fn problems(config: &Config) -> Vec<ConfigError> {
    let path = config.folder.join("kassette.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let placed = |(setting, why): (&str, String)| ConfigError {
        line: line_of(&text, setting),
        ..ConfigError::new(&path, why)
    };
    let mut problems: Vec<_> = of_main(config).into_iter().map(placed).collect();
    problems.extend(access::data_problems(&config.path(&config.main.data_dir)));
    problems.extend(access::plugin_problems(
        &config.path(&config.main.plugin_dir),
    ));
    problems
}

/// Problems that concern the main file's settings, each with the setting's name.
fn of_main(config: &Config) -> Vec<(&'static str, String)> {
    let main = &config.main;
    let mut problems = Vec::new();
    if let Err(why) = main.public_origin() {
        problems.push(("public_url", why));
    }
    let plugin_dir = config.path(&main.plugin_dir);
    let data_dir = config.path(&main.data_dir);
    // `serve` creates the folder only inside the data directory. Elsewhere a missing folder is a mistake: an empty
    // one would silently replace the intended modules.
    let is_made = plugin_dir.starts_with(&data_dir) && !plugin_dir.exists();
    if !plugin_dir.is_dir() && !is_made {
        let why = format!(
            "plugin_dir = {} is no folder: make it",
            plugin_dir.display()
        );
        problems.push(("plugin_dir", why));
    }
    if let Err(why) = files::can_be_a_folder(&data_dir) {
        problems.push(("data_dir", format!("data_dir: {why}")));
    }
    let key_file = main.master_key_file.as_deref();
    let key_file = key_file.map(|path| config.path(path));
    let key = crate::master_key::read(key_file.as_deref()).map_err(|error| error.to_string());
    let parse = |key: Secret| {
        let parsed = MasterKey::parse(key.expose());
        parsed.map_err(|error| format!("the master key is not usable: {error}"))
    };
    if let Err(why) = key.and_then(parse) {
        problems.push(("master_key_file", why));
    }
    for (name, certificate, key) in [
        ("tls_cert", &main.tls_cert, &main.tls_key),
        ("admin_tls_cert", &main.admin_tls_cert, &main.admin_tls_key),
    ] {
        if let (Some(certificate), Some(key)) = (certificate, key)
            && let Err(error) = tls_acceptor(&config.path(certificate), &config.path(key))
        {
            problems.push((name, error.to_string()));
        }
    }
    if !main.admin_listen.ip().is_loopback() && main.admin_tls_cert.is_none() {
        let why = format!(
            "admin_listen = {} is not loopback, so it needs admin_tls_cert and admin_tls_key",
            main.admin_listen
        );
        problems.push(("admin_listen", why));
    }
    if main.listen == main.admin_listen && main.listen.port() != 0 {
        let why = "listen and admin_listen are the same address: give each its own".to_owned();
        problems.push(("admin_listen", why));
    }
    problems
}
