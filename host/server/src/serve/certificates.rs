//! Certificates of the listeners: read at the start, and again when their files were replaced.

use std::path::{Path, PathBuf};

use kassette_domain::time::Time;
use kassette_files::{Holds, judge};
use tokio_rustls::TlsAcceptor;

use super::file_watch::{FileIdentity, FileWatch, file_identity};
use crate::config::{Config, Profile};
use crate::listen::{ListenError, Tls, tls_acceptor};
use crate::status::{Facts, certificate};
use crate::telemetry;

/// Paths of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

/// Identities of the two files, with their paths. `None` for a missing file.
type Seen = (Pair, [Option<FileIdentity>; 2]);

impl Pair {
    fn configured(config: &Config, certificate: Option<&Path>, key: Option<&Path>) -> Option<Self> {
        Some(Self {
            certificate: config.path(certificate?),
            key: config.path(key?),
        })
    }

    /// Files of the public listener. `None` without TLS.
    pub(super) fn public(config: &Config) -> Option<Self> {
        let main = &config.main;
        Self::configured(config, main.tls_cert.as_deref(), main.tls_key.as_deref())
    }

    /// Files of the admin listener. `None` without TLS.
    pub(super) fn admin(config: &Config) -> Option<Self> {
        let main = &config.main;
        Self::configured(
            config,
            main.admin_tls_cert.as_deref(),
            main.admin_tls_key.as_deref(),
        )
    }

    fn look(&self) -> Seen {
        let identities = [&self.certificate, &self.key].map(|path| file_identity(path));
        (self.clone(), identities)
    }

    fn read(&self, profile: Profile) -> Result<TlsAcceptor, ListenError> {
        if profile == Profile::Serve {
            judge(&self.key, Holds::Secret).map_err(|exposed| ListenError::Tls {
                path: self.key.display().to_string(),
                why: exposed.to_string(),
            })?;
        }
        tls_acceptor(&self.certificate, &self.key)
    }
}

/// Certificate of a listener.
pub(super) struct Certificate {
    /// `public` or `admin`.
    pub(super) listener: &'static str,
    pair: Pair,
    profile: Profile,
    tls: Tls,
    watch: FileWatch<Seen>,
}

impl Certificate {
    /// Reads the certificate at the start.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(super) fn begin(
        listener: &'static str,
        pair: Pair,
        profile: Profile,
    ) -> Result<Self, ListenError> {
        let seen = pair.look();
        let tls = Tls::new(pair.read(profile)?);
        telemetry::shows_certificate(listener, &pair.certificate);
        Ok(Self {
            tls,
            watch: FileWatch::reading(seen),
            listener,
            pair,
            profile,
        })
    }

    /// Adds the certificate in use to the status report. Logs a certificate that clients reject or that expires
    /// soon; the listener keeps serving, because some clients may not check it.
    pub(super) fn show_in(&self, facts: &Facts, now: Time) {
        let (listener, file) = (self.listener, self.pair.certificate.display());
        let certificate = match certificate::Certificate::read(&self.pair.certificate) {
            Ok(certificate) => certificate,
            Err(why) => {
                tracing::warn!("the certificate of the {listener} listener is not checked: {why}");
                return;
            }
        };
        match certificate.refusal(now) {
            Some(why) => {
                tracing::error!(
                    "clients refuse the certificate of the {listener} listener, {file}: {why}"
                );
            }
            None if certificate.ends_soon(now) => tracing::warn!(
                "the certificate of the {listener} listener, {file}, ends in {} days: renew it",
                certificate.days_left(now)
            ),
            None => {}
        }
        facts.shows(listener, certificate);
    }

    /// TLS configuration of the listener.
    pub(super) fn tls(&self) -> Tls {
        self.tls.clone()
    }

    /// Changes the paths of the files. `None` keeps the current paths.
    pub(super) fn follow(&mut self, pair: Option<Pair>) {
        self.pair = pair.unwrap_or_else(|| self.pair.clone());
    }

    /// Reads the files and applies them.
    ///
    /// # Errors
    /// If they cannot be used. The previous certificate stays in use.
    pub(super) fn read_again(&mut self) -> Result<(), ListenError> {
        self.watch = FileWatch::reading(self.pair.look());
        self.tls.exchange(self.pair.read(self.profile)?);
        telemetry::shows_certificate(self.listener, &self.pair.certificate);
        Ok(())
    }

    /// Reads the files if they have changed since the last reading and have not changed since the last check.
    /// `None` if there is nothing to read.
    pub(super) fn look(&mut self) -> Option<Result<(), ListenError>> {
        let now = self.pair.look();
        self.watch.look(now).then(|| self.read_again())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use std::os::unix::fs::PermissionsExt as _;

    /// A new certificate and its key, as PEM.
    fn drawn() -> [String; 2] {
        let made = rcgen::generate_simple_self_signed(["pay.example".to_owned()]).unwrap();
        let pem = |kind: &str, der: &[u8]| {
            let text = STANDARD.encode(der);
            format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
        };
        [
            pem("CERTIFICATE", made.cert.der()),
            pem("PRIVATE KEY", &made.signing_key.serialize_der()),
        ]
    }

    struct Files {
        folder: tempfile::TempDir,
        pair: Pair,
    }

    impl Files {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let pair = Pair {
                certificate: folder.path().join("live.pem"),
                key: folder.path().join("live.key"),
            };
            let files = Self { folder, pair };
            let [certificate, key] = drawn();
            files.put(&files.pair.certificate, &certificate);
            files.put(&files.pair.key, &key);
            files
        }

        fn put(&self, path: &Path, text: &str) {
            let aside = self.folder.path().join("aside");
            std::fs::write(&aside, text).unwrap();
            std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::fs::rename(aside, path).unwrap();
        }
    }

    #[test]
    fn a_replaced_pair_is_taken_over_once_it_is_still() {
        let files = Files::new();
        let begin = Certificate::begin("public", files.pair.clone(), Profile::Serve);
        let mut certificate = begin.unwrap();
        assert!(certificate.look().is_none(), "nothing has changed");
        let before = certificate.tls().acceptor();
        let [new, key] = drawn();
        files.put(&files.pair.certificate, &new);
        assert!(certificate.look().is_none(), "its key is still to come");
        files.put(&files.pair.key, &key);
        assert!(certificate.look().is_none());
        certificate.look().unwrap().unwrap();
        let after = certificate.tls().acceptor();
        assert!(!std::sync::Arc::ptr_eq(&before, &after));
        assert!(certificate.look().is_none());
    }

    #[test]
    fn a_pair_that_does_not_match_is_told_once_and_leaves_the_one_before() {
        let files = Files::new();
        let begin = Certificate::begin("public", files.pair.clone(), Profile::Serve);
        let mut certificate = begin.unwrap();
        let before = certificate.tls().acceptor();
        let [_, other] = drawn();
        files.put(&files.pair.key, &other);
        assert!(certificate.look().is_none());
        assert!(certificate.look().unwrap().is_err());
        assert!(certificate.look().is_none() && certificate.look().is_none());
        let after = certificate.tls().acceptor();
        assert!(std::sync::Arc::ptr_eq(&before, &after));
    }

    #[test]
    fn a_key_that_others_may_read_is_not_taken_over_until_they_may_not() {
        let files = Files::new();
        let begin = Certificate::begin("admin", files.pair.clone(), Profile::Serve);
        let mut certificate = begin.unwrap();
        let [new, key] = drawn();
        files.put(&files.pair.certificate, &new);
        files.put(&files.pair.key, &key);
        let set_mode = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&files.pair.key, mode).unwrap();
        };
        set_mode(0o644);
        assert!(certificate.look().is_none());
        let refused = certificate.look().unwrap().unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        set_mode(0o600);
        assert!(certificate.look().is_none());
        certificate.look().unwrap().unwrap();
    }

    #[test]
    fn a_configuration_leads_to_other_files_and_never_to_none() {
        let (files, others) = (Files::new(), Files::new());
        let begin = Certificate::begin("public", files.pair.clone(), Profile::Serve);
        let mut certificate = begin.unwrap();
        certificate.follow(None);
        assert!(certificate.look().is_none());
        certificate.follow(Some(others.pair.clone()));
        assert!(certificate.look().is_none());
        certificate.look().unwrap().unwrap();
        assert_eq!(certificate.pair, others.pair);
    }
}
