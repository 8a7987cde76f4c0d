//! Checks of permissions: who else can write the configuration and the modules, or read the secrets.

use std::path::Path;

use kassette_files::{Holds, judge};

use super::{Config, ConfigError, FOLDERS, files};

/// Problems with the permissions of a configuration, except for account files. Those are checked by
/// `account::read`, which knows whether they hold secrets.
pub(super) fn problems(config: &Config) -> Vec<ConfigError> {
    let folder = config.folder.as_path();
    let mut settings = vec![folder.to_owned(), folder.join("kassette.toml")];
    for name in FOLDERS {
        settings.push(folder.join(name));
        if name != "providers" {
            settings.extend(files(&folder.join(name)).unwrap_or_default());
        }
    }
    // A user who can write these files decides which receivers and providers the gateway trusts.
    let authorities = config.main.authority_files().into_iter();
    settings.extend(authorities.filter_map(|(_, file)| file.map(|path| config.path(path))));
    let keys = [&config.main.tls_key, &config.main.admin_tls_key];
    let keys = keys.into_iter().flatten().map(|key| config.path(key));
    settings
        .into_iter()
        .map(|path| (path, Holds::Settings))
        .chain(keys.map(|path| (path, Holds::Secret)))
        .filter_map(|(path, holds)| refused(&path, holds).err())
        .collect()
}

/// Problems with the permissions of the data directory and of the gateway's folders in it. A user who can
/// write there can replace a file that the gateway opens with a link.
pub(crate) fn data_problems(folder: &Path) -> Vec<ConfigError> {
    ["", "store", "modules", "compiled"]
        .into_iter()
        .filter_map(|name| refused(&folder.join(name), Holds::Settings).err())
        .collect()
}

/// Problems with the permissions of the plugin folder and of the `.wasm` files in it.
pub(crate) fn plugin_problems(folder: &Path) -> Vec<ConfigError> {
    // A folder that is missing or unreadable is reported by the code that loads the modules.
    let modules = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let modules = modules
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "wasm"));
    std::iter::once(folder.to_owned())
        .chain(modules)
        .filter_map(|path| refused(&path, Holds::Settings).err())
        .collect()
}

/// Returns an error if other users have too many permissions for a file or folder.
pub(super) fn refused(path: &Path, holds: Holds) -> Result<(), ConfigError> {
    judge(path, holds).map_err(|exposed| ConfigError::new(path, exposed))
}
