//! Keys and tokens of `dev`: generated once per data directory and stored in `dev-credentials.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kassette_domain::id::EndpointId;
use kassette_domain::key::{Environment, TokenKind};
use kassette_domain::secret::Secret;
use kassette_domain::webhook::generate_secret;
use serde::{Deserialize, Serialize};

use crate::simulators::SharedSecrets;

/// Name of the file in the data directory.
const FILE: &str = "dev-credentials.json";

/// Secrets that later runs of `dev` use again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Credentials {
    /// Token of an operator with the role admin.
    pub(super) operator_token: Secret,
    /// The demo merchant's key for test payments.
    pub(super) test_key: Secret,
    /// The demo merchant's key for live payments.
    pub(super) live_key: Secret,
    /// The demo reseller's keys. [`Credentials::load`] generates them if they are missing.
    #[serde(default)]
    pub(super) reseller: Option<DemoReseller>,
    /// The demo merchant's webhook endpoint. [`Credentials::load`] generates it if it is missing.
    #[serde(default)]
    pub(super) webhook: Option<DemoEndpoint>,
    /// Secrets shared by simulated accounts and their simulators, by account.
    pub(super) simulators: BTreeMap<String, SharedSecrets>,
}

/// The demo reseller's keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DemoReseller {
    /// For test payments.
    pub(super) test_key: Secret,
    /// For live payments.
    pub(super) live_key: Secret,
}

/// The demo merchant's webhook endpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DemoEndpoint {
    /// 32 hexadecimal characters.
    pub(super) endpoint_id: String,
    /// Signing secret, `whsec_…`.
    pub(super) secret: Secret,
    /// Last port of its receiver.
    pub(super) port: Option<u16>,
}

/// Reason why the credentials cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    /// The file cannot be read or written.
    #[error("{path}: {why}; remove the data directory to begin anew")]
    File { path: String, why: String },
    /// The operating system provides no random bytes.
    #[error("no randomness from the operating system: {0}")]
    Random(#[from] getrandom::Error),
}

impl Credentials {
    /// Reads the file, and generates and stores missing credentials.
    pub(crate) fn load(data_dir: &Path, accounts: &[&str]) -> Result<Self, CredentialsError> {
        let path = data_dir.join(FILE);
        let mut credentials: Self = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| file(&path, error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::draw()?,
            Err(error) => return Err(file(&path, error)),
        };
        for account in accounts {
            if !credentials.simulators.contains_key(*account) {
                credentials
                    .simulators
                    .insert((*account).to_owned(), SharedSecrets::draw()?);
            }
        }
        if credentials.webhook.is_none() {
            credentials.webhook = Some(DemoEndpoint::draw()?);
        }
        if credentials.reseller.is_none() {
            credentials.reseller = Some(DemoReseller::draw()?);
        }
        credentials.save(data_dir)?;
        Ok(credentials)
    }

    pub(super) fn save(&self, data_dir: &Path) -> Result<(), CredentialsError> {
        let path = data_dir.join(FILE);
        let text = serde_json::to_vec_pretty(self).map_err(|error| file(&path, error))?;
        kassette_files::write(&path, 0o600, &text).map_err(|error| file(&path, error))
    }

    /// Secrets of a simulated account. `None` unless it was passed to [`Credentials::load`].
    pub(super) fn simulator(&self, account: &str) -> Option<SharedSecrets> {
        self.simulators.get(account).cloned()
    }

    fn draw() -> Result<Self, CredentialsError> {
        Ok(Self {
            operator_token: TokenKind::Operator.generate(getrandom::fill)?,
            test_key: TokenKind::Merchant(Environment::Test).generate(getrandom::fill)?,
            live_key: TokenKind::Merchant(Environment::Live).generate(getrandom::fill)?,
            reseller: None,
            webhook: None,
            simulators: BTreeMap::new(),
        })
    }
}

impl DemoReseller {
    fn draw() -> Result<Self, getrandom::Error> {
        Ok(Self {
            test_key: TokenKind::Reseller(Environment::Test).generate(getrandom::fill)?,
            live_key: TokenKind::Reseller(Environment::Live).generate(getrandom::fill)?,
        })
    }
}

impl DemoEndpoint {
    fn draw() -> Result<Self, getrandom::Error> {
        let mut id = [0; 16];
        getrandom::fill(&mut id)?;
        Ok(Self {
            endpoint_id: EndpointId::from_bytes(id).to_string(),
            secret: generate_secret(getrandom::fill)?,
            port: None,
        })
    }

    /// Id of the endpoint. `None` if the file was edited and contains an invalid one.
    pub(super) fn id(&self) -> Option<EndpointId> {
        EndpointId::parse(&self.endpoint_id).ok()
    }
}

fn file(path: &Path, why: impl ToString) -> CredentialsError {
    CredentialsError::File {
        path: PathBuf::from(path).display().to_string(),
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_start_finds_the_same_keys_and_adds_what_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let first = Credentials::load(folder.path(), &["sandbox-test"]).unwrap();
        let second = Credentials::load(folder.path(), &["sandbox-test", "other-test"]).unwrap();
        assert_eq!(first.test_key, second.test_key);
        assert_eq!(
            first.simulators["sandbox-test"].callback_secret,
            second.simulators["sandbox-test"].callback_secret
        );
        assert_eq!(second.simulators.len(), 2);
        let endpoint = |credentials: &Credentials| credentials.webhook.clone().unwrap();
        assert_eq!(endpoint(&first).secret, endpoint(&second).secret);
        assert_eq!(endpoint(&first).id(), endpoint(&second).id());
        assert!(endpoint(&first).id().is_some());
        let live_key = |credentials: &Credentials| credentials.reseller.clone().unwrap().live_key;
        assert_eq!(live_key(&first), live_key(&second));
    }

    #[test]
    fn a_damaged_file_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(Credentials::load(folder.path(), &[]).is_err());
        assert_eq!(
            std::fs::read_to_string(folder.path().join(FILE)).unwrap(),
            "{"
        );
    }
}
