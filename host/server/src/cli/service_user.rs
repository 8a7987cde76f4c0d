//! The user that runs the service, for checks by root.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kassette_files::ServiceUser;

/// Possible paths of the service's unit. The first existing file is used.
const UNITS: [&str; 3] = [
    "/etc/systemd/system/kassette.service",
    "/usr/lib/systemd/system/kassette.service",
    "/lib/systemd/system/kassette.service",
];

/// The user whose permissions apply when root checks a configuration: the unit's `User=` if the unit serves this
/// folder, else the owner of the data directory. `None` if this process does not run as root, or the service's
/// user is root.
pub(super) fn service_user(config: &Path, data_dir: &Path) -> Option<ServiceUser> {
    let own = std::fs::metadata("/proc/self").ok()?.uid();
    if own != 0 {
        return None;
    }
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let unit = UNITS.into_iter().map(read).find(|unit| !unit.is_empty());
    let named = unit.and_then(|unit| user_of_unit(&unit, config));
    let (users, groups) = (read("/etc/passwd"), read("/etc/group"));
    let user = match named {
        Some(name) => of_name(&name, &users, &groups)?,
        None => {
            let owner = std::fs::metadata(data_dir).ok()?;
            of_id(owner.uid(), owner.gid(), &users, &groups)
        }
    };
    (user.id != 0).then_some(user)
}

/// `User=` of a unit. `None` if the unit serves another folder.
fn user_of_unit(unit: &str, config: &Path) -> Option<String> {
    let config = std::fs::canonicalize(config).ok()?;
    let begins = unit
        .lines()
        .filter_map(|line| line.trim().strip_prefix("ExecStart="));
    let serves = begins
        .flat_map(str::split_whitespace)
        .filter_map(|word| std::fs::canonicalize(word).ok())
        .any(|word| word == config);
    let user = unit
        .lines()
        .find_map(|line| line.trim().strip_prefix("User="));
    user.filter(|_| serves).map(|user| user.trim().to_owned())
}

/// A user from `/etc/passwd` with the groups from `/etc/group`.
fn of_name(name: &str, users: &str, groups: &str) -> Option<ServiceUser> {
    let user = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        let id = fields.nth(1)?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        Some((id, group))
    });
    let (id, group) = user?;
    Some(with_groups(name, id, group, groups))
}

/// A user by id, which may not have a name.
fn of_id(id: u32, group: u32, users: &str, groups: &str) -> ServiceUser {
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    });
    match name.and_then(|name| of_name(name, users, groups)) {
        Some(user) => user,
        None => ServiceUser {
            id,
            groups: vec![group],
        },
    }
}

fn with_groups(name: &str, id: u32, group: u32, groups: &str) -> ServiceUser {
    let mut all = vec![group];
    all.extend(groups.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let id: u32 = fields.next()?.parse().ok()?;
        fields
            .next()?
            .split(',')
            .any(|member| member == name)
            .then_some(id)
    }));
    ServiceUser { id, groups: all }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str =
        "root:x:0:0:root:/root:/bin/sh\nkassette:x:990:980::/var/lib/kassette:/usr/sbin/nologin\n";
    const GROUPS: &str = "root:x:0:\ntls:x:70:nginx,kassette\nkassette:x:980:\n";

    #[test]
    fn a_user_has_its_own_group_and_those_that_name_it() {
        let kassette = ServiceUser {
            id: 990,
            groups: vec![980, 70],
        };
        assert_eq!(of_name("kassette", USERS, GROUPS), Some(kassette.clone()));
        assert_eq!(of_name("nobody", USERS, GROUPS), None);
        assert_eq!(of_id(990, 5, USERS, GROUPS), kassette);
        let unnamed = ServiceUser {
            id: 991,
            groups: vec![5],
        };
        assert_eq!(of_id(991, 5, USERS, GROUPS), unnamed);
    }

    #[test]
    fn a_unit_names_the_user_of_the_folder_that_it_serves() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let unit = format!(
            "[Service]\nUser=kassette\nExecStart=/usr/bin/kassette serve --config {path}\n"
        );
        assert_eq!(
            user_of_unit(&unit, folder.path()).as_deref(),
            Some("kassette")
        );
        let other = tempfile::tempdir().unwrap();
        assert_eq!(user_of_unit(&unit, other.path()), None);
    }
}
