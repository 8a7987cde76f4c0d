//! A PostgreSQL server of one's own, from what is installed: for tests, and for `dev`.
//!
//! It listens on a Unix socket in its folder and nowhere else, and ends with the process that started it, however
//! that ends: a shell stands between the two, which stops the server when its standard input closes.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::postgres::errors::said;

/// How long a server may take to come up, or one that ends to be gone: it may have much to recover.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether it is there.
const LOOK: Duration = Duration::from_millis(20);
/// Who the server runs as where this process is root, which it refuses.
const USER: &str = "postgres";
/// Longest path of a Unix socket, without the socket's own name.
const MAX_SOCKET_PATH: usize = 90;

/// Stops the server once the other end of its standard input is closed: `$1` is the program, `$2` its folder,
/// `$3` where its log goes, `$4` what is removed at last.
const KEEPER: &str = r#"
    program="$1" data="$2" log="$3" remove="$4"; shift 4
    exec 3<&0 </dev/null
    "$program" -D "$data" "$@" >>"$log" 2>&1 3<&- &
    server=$!
    trap '' INT HUP TERM
    (cat <&3 >/dev/null; kill -INT $server 2>/dev/null) &
    wait $server
    [ -z "$remove" ] || rm -rf "$remove"
    kill $! 2>/dev/null
"#;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// No PostgreSQL is installed.
    #[error(
        "no PostgreSQL is installed here: `apt-get install postgresql`, or put the folder of `initdb` into PATH"
    )]
    NotInstalled,
    /// The user that it has to run as does not exist.
    #[error("PostgreSQL does not run as root, and there is no user `{USER}` for it")]
    NoUser,
    /// Its folder cannot be used.
    #[error("{} cannot be used: {source}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its path is too long for a socket.
    #[error("{} is too long a path for a Unix socket", .0.display())]
    PathTooLong(PathBuf),
    /// A program of it failed.
    #[error("`{program}` failed: {said}")]
    Failed {
        /// Which one.
        program: &'static str,
        /// What it said.
        said: String,
    },
    /// It did not come up in time.
    #[error("PostgreSQL did not come up in {}: see {}", .folder.display(), .log.display())]
    NotUp {
        /// Its folder.
        folder: PathBuf,
        /// Its log.
        log: PathBuf,
    },
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct PrivateOptions {
    /// Its folder, made where it does not exist; what is in it already is taken up again.
    pub folder: PathBuf,
    /// It need not outlive this process: nothing is synced, and the folder is removed at its end.
    pub disposable: bool,
    /// Further settings, `name=value`.
    pub settings: Vec<String>,
}

/// A server that runs. It is stopped when this is dropped.
#[derive(Debug)]
pub struct PrivateServer {
    keeper: Child,
    folder: PathBuf,
    pid: u32,
}

/// Who the programs run as, which refuse to be root.
#[derive(Clone, Copy, Debug)]
enum RunsAs {
    /// This process's user.
    Itself,
    /// Root, who is seen as a user of these numbers in a namespace: what it makes belongs to root, wherever it is.
    Mapped(u32, u32),
    /// [`USER`], who has to be let to its folder.
    Other(u32, u32),
}

impl PrivateServer {
    /// Starts a server, and waits until it takes connections. Blocks.
    ///
    /// # Errors
    /// [`PrivateError`].
    pub fn start(options: &PrivateOptions) -> Result<Self, PrivateError> {
        Self::begin(options, None)
    }

    /// Starts a server that copies this one and follows it until `pg_promote()`. Blocks. Whether commits wait for it is
    /// for `synchronous_standby_names` here to say.
    ///
    /// # Errors
    /// [`PrivateError`].
    pub fn start_standby(&self, options: &PrivateOptions) -> Result<Self, PrivateError> {
        Self::begin(options, Some(&self.folder))
    }

    fn begin(options: &PrivateOptions, follows: Option<&Path>) -> Result<Self, PrivateError> {
        let programs = programs().ok_or(PrivateError::NotInstalled)?;
        let folder = &options.folder;
        let failed = |source| PrivateError::Folder {
            path: folder.clone(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        if folder.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(PrivateError::PathTooLong(folder));
        }
        let runs_as = RunsAs::find(&folder)?;
        runs_as.give(&folder).map_err(failed)?;
        let data = folder.join("data");
        wait_for_the_one_before(&data)?;
        if !data.join("PG_VERSION").exists() {
            // One that was interrupted leaves what the next one refuses.
            if data.exists() {
                std::fs::remove_dir_all(&data).map_err(failed)?;
            }
            let program = match follows {
                None => "initdb",
                Some(_) => "pg_basebackup",
            };
            let mut made = runs_as.command(programs.join(program), &folder);
            made.arg("--pgdata").arg(&data);
            made.args(["--username=kassette", "--no-sync"]);
            match follows {
                None => made.args(["--auth=trust", "--encoding=UTF8", "--locale=C"]),
                Some(primary) => made
                    .arg("--host")
                    .arg(primary)
                    .args(["--write-recovery-conf", "--checkpoint=fast"]),
            };
            run(made, program)?;
        }
        let log = folder.join("log");
        let mut keeper = runs_as.command("/bin/sh".into(), &folder);
        keeper.args(["-c", KEEPER, "kassette-postgres"]);
        keeper.arg(programs.join("postgres")).arg(&data).arg(&log);
        keeper.arg(if options.disposable {
            folder.as_os_str()
        } else {
            "".as_ref()
        });
        keeper.arg("-k").arg(&folder).args(["-h", ""]);
        if options.disposable {
            keeper.args(["-F", "-c", "full_page_writes=off"]);
        }
        for setting in &options.settings {
            keeper.args(["-c", setting]);
        }
        // A group of its own: an interrupt of the terminal ends this process first, which ends the server.
        let keeper = keeper
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let keeper = keeper.map_err(|error| PrivateError::Failed {
            program: "sh",
            said: error.to_string(),
        })?;
        let mut server = Self {
            keeper,
            pid: 0,
            folder,
        };
        server.wait_until_up(&data, &log)?;
        Ok(server)
    }

    /// The address of a database of the server.
    pub fn url(&self, database: &str) -> String {
        let folder: String =
            url::form_urlencoded::byte_serialize(self.folder.as_os_str().as_encoded_bytes())
                .collect();
        format!("postgres://kassette@{folder}/{database}")
    }

    /// The server's process.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the server has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.keeper.try_wait(), Ok(None))
    }

    /// Makes a database where it does not exist.
    ///
    /// # Errors
    /// What the server said.
    pub async fn make_database(&self, name: &str) -> Result<(), String> {
        let made = self.administrate(&format!("CREATE DATABASE {name}")).await;
        made.or_else(|said| {
            if said.contains("(42P04)") {
                Ok(())
            } else {
                Err(said)
            }
        })
    }

    /// Does a statement in the maintenance database.
    ///
    /// # Errors
    /// What the server said.
    pub async fn administrate(&self, statement: &str) -> Result<(), String> {
        let url = self.url("postgres");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .map_err(|error| said(&error))?;
        let connection = tokio::spawn(connection);
        let done = client
            .batch_execute(statement)
            .await
            .map_err(|error| said(&error));
        drop(client);
        // Until then the session counts as one of the database.
        let _ = connection.await;
        done
    }

    fn wait_until_up(&mut self, data: &Path, log: &Path) -> Result<(), PrivateError> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE && !self.has_ended() {
            // The server writes its process, and as the last line whether it is ready.
            if let Ok(text) = std::fs::read_to_string(data.join("postmaster.pid"))
                && text
                    .lines()
                    .nth(7)
                    .is_some_and(|line| line.trim() == "ready")
                && let Some(Ok(pid)) = text.lines().next().map(str::parse)
                // Not what a server left behind that was killed.
                && is_server(pid)
            {
                self.pid = pid;
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Err(PrivateError::NotUp {
            folder: self.folder.clone(),
            log: log.to_owned(),
        })
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Waits for a server of a process that has just ended.
fn wait_for_the_one_before(data: &Path) -> Result<(), PrivateError> {
    let began = Instant::now();
    let lock = data.join("postmaster.pid");
    while let Ok(text) = std::fs::read_to_string(&lock) {
        let pid = text.lines().next().and_then(|line| line.parse().ok());
        // A file that a crash left behind is the server's own to judge.
        if !pid.is_some_and(is_server) {
            break;
        }
        if began.elapsed() > PATIENCE {
            let said = format!("{} names a server that still runs", lock.display());
            return Err(PrivateError::Failed {
                program: "postgres",
                said,
            });
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Whether a process is there and is a server's.
fn is_server(pid: u32) -> bool {
    let name = std::fs::read(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name.starts_with(b"postgres"))
}

impl RunsAs {
    fn find(folder: &Path) -> Result<Self, PrivateError> {
        let own = std::fs::metadata("/proc/self");
        let own = own.map_err(|source| PrivateError::Folder {
            path: folder.to_owned(),
            source,
        })?;
        if own.uid() != 0 {
            return Ok(Self::Itself);
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let ids = users.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(USER)).then_some(())?;
            Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
        });
        let (uid, gid) = ids.ok_or(PrivateError::NoUser)?;
        let mapped = Self::Mapped(uid, gid);
        // Not every machine lets us have a namespace.
        let mut tried = mapped.command("true".into(), folder);
        let tried = tried.stdout(Stdio::null()).stderr(Stdio::null()).status();
        Ok(match tried {
            Ok(status) if status.success() => mapped,
            _ => Self::Other(uid, gid),
        })
    }

    /// Gives a folder to the user, and lets it pass the folder above.
    fn give(self, folder: &Path) -> io::Result<()> {
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700))?;
        let Self::Other(uid, gid) = self else {
            return Ok(());
        };
        chown(folder, Some(uid), Some(gid))?;
        if let Some(above) = folder.parent() {
            let mode = std::fs::metadata(above)?.permissions().mode();
            if mode & 0o001 == 0 {
                std::fs::set_permissions(above, PermissionsExt::from_mode(mode | 0o001))?;
            }
        }
        Ok(())
    }

    fn command(self, program: PathBuf, folder: &Path) -> Command {
        let mut command = match self {
            Self::Itself | Self::Other(..) => Command::new(program),
            Self::Mapped(uid, gid) => {
                let mut command = Command::new("unshare");
                command.arg("--user");
                command
                    .arg(format!("--map-user={uid}"))
                    .arg(format!("--map-group={gid}"));
                command.arg("--").arg(program);
                command
            }
        };
        command
            .current_dir("/")
            .env("HOME", folder)
            .env("LC_ALL", "C");
        if let Self::Other(uid, gid) = self {
            command.uid(uid).gid(gid);
        }
        command
    }
}

fn run(mut command: Command, program: &'static str) -> Result<(), PrivateError> {
    let failed = |said: String| PrivateError::Failed { program, said };
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    Ok(())
}

/// The folder of the newest server's programs: that of PATH, else Debian's.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has =
        |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    if let Some(folder) = std::env::split_paths(&path).find(has) {
        // Links to some of them stand without the others.
        let initdb = folder.join("initdb").canonicalize().ok()?;
        return initdb.parent().map(Path::to_owned).filter(has);
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let version = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions
        .filter_map(|each| Some(each.ok()?.path()))
        .max_by_key(version)?;
    Some(newest.join("bin")).filter(has)
}
