//! Who else may write the configuration and the modules, or read the secrets.

use std::path::Path;

use kassette_files::{Holds, judge};

use super::{Config, ConfigError, FOLDERS, files};

/// What is wrong with the permissions of a configuration. The files of accounts are judged as they are
/// read: only then is it known whether they hold secrets.
pub(super) fn problems(config: &Config) -> Vec<ConfigError> {
    let folder = config.folder.as_path();
    let mut settings = vec![folder.to_owned(), folder.join("kassette.toml")];
    for name in FOLDERS {
        settings.push(folder.join(name));
        if name != "providers" {
            settings.extend(files(&folder.join(name)).unwrap_or_default());
        }
    }
    // Who can write there decides which receivers and providers are believed.
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

/// What is wrong with the permissions of the data directory and of the gateway's own folders in it: who may
/// write there can put a link where a file is opened.
pub(crate) fn data_problems(folder: &Path) -> Vec<ConfigError> {
    ["", "store", "modules", "compiled"]
        .into_iter()
        .filter_map(|name| refused(&folder.join(name), Holds::Settings).err())
        .collect()
}

/// What is wrong with the permissions of the plugin folder and of what lies in it.
pub(crate) fn plugin_problems(folder: &Path) -> Vec<ConfigError> {
    // A folder that is not there, or cannot be read, is told of by those who read it.
    let modules = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let modules = modules
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "wasm"));
    std::iter::once(folder.to_owned())
        .chain(modules)
        .filter_map(|path| refused(&path, Holds::Settings).err())
        .collect()
}

/// Refuses a file or folder that others may do too much with.
pub(super) fn refused(path: &Path, holds: Holds) -> Result<(), ConfigError> {
    judge(path, holds).map_err(|exposed| ConfigError::new(path, exposed))
}
