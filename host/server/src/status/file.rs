//! `status.json` in the data directory: the report for users of the server's machine, without a token.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

use super::{Part, Report, State};

/// The file's name in the data directory.
pub(crate) const FILE: &str = "status.json";
/// Interval at which the server writes the file.
pub(super) const WRITE_EVERY: Duration = Duration::from_secs(10);
/// Age above which the server is considered stopped or hung.
const MAX_AGE: Duration = Duration::from_secs(60);
/// File mode: writable for the service's user, readable for the group of the data directory.
const MODE: u32 = 0o640;
/// Maximum size of the file in bytes.
const MOST: u64 = 4 << 20;

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StatusFile {
    /// Time at which it was written, RFC 3339.
    written_at: String,
    #[serde(flatten)]
    report: Report,
    /// Accounts disabled by their switches, regardless of their files.
    #[serde(default)]
    pub(crate) switched_off: Vec<String>,
}

/// Reason why no report is available.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    #[error("{0}: is not a report of this program: {1}")]
    NotAReport(PathBuf, String),
}

impl StatusFile {
    pub(super) const fn new(written_at: String, report: Report, switched_off: Vec<String>) -> Self {
        Self {
            written_at,
            report,
            switched_off,
        }
    }

    /// Writes the file atomically into a data directory.
    pub(super) fn write(&self, data_dir: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        kassette_files::write(&data_dir.join(FILE), MODE, &text)
    }

    /// The report; its state is failing if it is older than a minute, because the server is then stopped or
    /// hung.
    pub(crate) fn judged(mut self, now: Time) -> Report {
        let written = Time::parse_rfc3339(&self.written_at);
        let age = written.map(|written| now.since(written));
        if age.is_none_or(|age| age > MAX_AGE) {
            let why = format!(
                "the server wrote its last report at {}: it does not run, or it hangs; the parts below are of then",
                self.written_at
            );
            let old = Part::new("server", State::Failing, written, why);
            self.report.parts.insert(0, old);
            self.report.state = State::Failing;
        }
        self.report
    }
}

/// Reads the file of a data directory.
///
/// # Errors
/// Reason why it cannot be read.
pub(crate) fn read(data_dir: &Path) -> Result<StatusFile, FileError> {
    let path = data_dir.join(FILE);
    let failed = |error| FileError::Io(path.clone(), error);
    if std::fs::metadata(&path).map_err(failed)?.len() > MOST {
        return Err(FileError::NotAReport(path, "it is too large".to_owned()));
    }
    let text = std::fs::read(&path).map_err(failed)?;
    serde_json::from_slice(&text).map_err(|error| FileError::NotAReport(path, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_report_older_than_a_minute_is_failing() {
        let folder = tempfile::tempdir().unwrap();
        let report = Report::new(vec![Part::new("disk", State::Ok, None, "there is room")]);
        let now = Time::from_secs(1_800_000_000);
        let file = StatusFile::new(now.rfc3339(), report.clone(), vec!["mollie-live".into()]);
        file.write(folder.path()).unwrap();
        let mode = std::fs::metadata(folder.path().join(FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640);
        let judged = |seconds| {
            read(folder.path())
                .unwrap()
                .judged(now.after(Duration::from_secs(seconds)))
        };
        assert_eq!(judged(60), report);
        let old = judged(61);
        assert_eq!((old.state, old.parts.len()), (State::Failing, 2));
        assert_eq!(old.parts[0].state, State::Failing);
        assert_eq!(read(folder.path()).unwrap().switched_off, ["mollie-live"]);
        std::fs::write(folder.path().join(FILE), "{}").unwrap();
        assert!(matches!(
            read(folder.path()),
            Err(FileError::NotAReport(..))
        ));
    }
}
