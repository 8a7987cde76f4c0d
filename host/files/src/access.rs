//! Checks who else may read or write a file.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::OnceLock;

use rustix::process::{getegid, geteuid, getgroups};

/// Kind of content of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Settings. They decide about money, so only the owner may write them; anyone may read them.
    Settings,
    /// A secret, which only this process and its user may read.
    Secret,
}

/// The permissions of a file allow too much. Each message names the command that corrects them.
#[derive(Debug, thiserror::Error)]
pub enum Exposed {
    /// The group or others may write the file.
    #[error("may be written by group or others; run chmod go-w on it")]
    Written,
    /// The file belongs to another user, who could change its mode and content.
    #[error(
        "belongs to user {0}; run chown on it, so that it is root's or the user's that runs this command"
    )]
    Owned(u32),
    /// The group or others may read a secret.
    #[error(
        "holds a secret and may be read by group or others (mode {0:03o}); run chmod 600 on it, or chmod 640 where it is root's and its group the service's, or mount it with such a mode"
    )]
    Read(u32),
    /// The permissions could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Checks the permissions of the file or folder at a path, following links. Returns `Ok` if nothing exists there,
/// because reading it will report that.
///
/// # Errors [`Exposed`] if others have more access than `holds` allows.
pub fn judge(path: &Path, holds: Holds) -> Result<(), Exposed> {
    match fs::metadata(path) {
        Ok(metadata) => match JUDGED_AS.get() {
            Some(user) => judged(&metadata, holds, user.id, |group| {
                user.groups.contains(&group)
            }),
            None => judged(&metadata, holds, geteuid().as_raw(), is_in_group),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether this process is in a group.
fn is_in_group(group: u32) -> bool {
    let mut groups = getgroups().unwrap_or_default();
    groups.push(getegid());
    groups.into_iter().any(|each| each.as_raw() == group)
}

/// User that a service runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUser {
    pub id: u32,
    pub groups: Vec<u32>,
}

/// Set by a command that checks files on behalf of a service.
static JUDGED_AS: OnceLock<ServiceUser> = OnceLock::new();

/// Makes [`judge`] check files as if this process ran as another user. Only the first call in a process has an
/// effect.
pub fn judge_as(user: ServiceUser) {
    let _first = JUDGED_AS.set(user);
}

/// Checks permissions for a process of the given user.
fn judged(
    metadata: &Metadata,
    holds: Holds,
    user: u32,
    is_in: impl FnOnce(u32) -> bool,
) -> Result<(), Exposed> {
    let owner = metadata.uid();
    if owner != 0 && owner != user {
        return Err(Exposed::Owned(owner));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o022 != 0 {
        return Err(Exposed::Written);
    }
    let others = mode & 0o077;
    let is_ours = || is_handed_over(owner, user, is_in(metadata.gid()));
    match holds {
        Holds::Secret if others != 0 && !(others == 0o040 && is_ours()) => Err(Exposed::Read(mode)),
        Holds::Settings | Holds::Secret => Ok(()),
    }
}

/// Whether root hands the file to this process through its group: `root:kassette` and mode 0640, as packages and
/// container platforms do.
const fn is_handed_over(owner: u32, user: u32, in_group: bool) -> bool {
    owner == 0 && user != 0 && in_group
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    #[test]
    fn settings_are_written_and_secrets_read_by_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, "").unwrap();
        symlink(&path, &link).unwrap();
        let judged = |mode, holds| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            judge(&link, holds).map_err(|exposed| exposed.to_string())
        };
        for mode in [0o600, 0o400, 0o644, 0o755] {
            judged(mode, Holds::Settings).unwrap();
        }
        for mode in [0o620, 0o602, 0o666, 0o777] {
            for holds in [Holds::Settings, Holds::Secret] {
                assert!(judged(mode, holds).unwrap_err().contains("chmod go-w"));
            }
        }
        for mode in [0o600, 0o400, 0o700] {
            judged(mode, Holds::Secret).unwrap();
        }
        for mode in [0o644, 0o604, 0o640, 0o601] {
            assert!(
                judged(mode, Holds::Secret)
                    .unwrap_err()
                    .contains("chmod 600")
            );
        }
        assert!(judge(&folder.path().join("none"), Holds::Secret).is_ok());
    }

    #[test]
    fn what_belongs_to_another_user_than_root_and_ours_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        // Only root can change the owner. For other users the file remains their own.
        let _ = chown(&path, Some(990), None);
        let metadata = fs::metadata(&path).unwrap();
        let owner = metadata.uid();
        for holds in [Holds::Settings, Holds::Secret] {
            let refused = judged(&metadata, holds, owner + 1, |_| true).unwrap_err();
            assert!(matches!(refused, Exposed::Owned(of) if of == owner));
            judged(&metadata, holds, owner, |_| true).unwrap();
        }
        let ours = judge(&path, Holds::Settings);
        assert_eq!(ours.is_ok(), owner == geteuid().as_raw());
        judge(Path::new("/"), Holds::Settings).unwrap();
    }

    #[test]
    fn a_group_reads_a_secret_only_where_root_gives_it_to_a_service() {
        let service = 990;
        assert!(is_handed_over(0, service, true));
        assert!(!is_handed_over(0, service, false), "another group");
        assert!(!is_handed_over(service, service, true), "the service's own");
        assert!(!is_handed_over(1000, service, true), "another user's");
        assert!(!is_handed_over(0, 0, true), "root needs no group");
    }
}
