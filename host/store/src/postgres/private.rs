//! A private PostgreSQL server from the installed programs, for tests and `dev`.
//!
//! It listens only on a Unix socket in its folder, and stops when the process that started it ends for any
//! reason: a shell between the two stops the server when the shell's standard input closes.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::postgres::errors::said;

/// Maximum time for a server to start or stop; it may have much to recover.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two checks whether the server is ready.
const LOOK: Duration = Duration::from_millis(20);
/// User that runs the server if this process is root, because the server refuses root.
const USER: &str = "postgres";
/// Maximum length of a Unix socket's folder path, in bytes.
const MAX_SOCKET_PATH: usize = 90;

/// Stops the server once its standard input closes. `$1` is the program, `$2` its folder, `$3` its log file,
/// `$4` the path to remove at the end.
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

/// Reason why no server is available.
#[derive(Debug, thiserror::Error)]
pub enum PrivateError {
    /// No PostgreSQL is installed.
    #[error(
        "no PostgreSQL is installed here: `apt-get install postgresql`, or put the folder of `initdb` into PATH"
    )]
    NotInstalled,
    /// The user that must run the server does not exist.
    #[error("PostgreSQL does not run as root, and there is no user `{USER}` for it")]
    NoUser,
    /// The server's folder cannot be used.
    #[error("{} cannot be used: {source}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The folder's path is too long for a Unix socket.
    #[error("{} is too long a path for a Unix socket", .0.display())]
    PathTooLong(PathBuf),
    /// One of PostgreSQL's programs failed.
    #[error("`{program}` failed: {said}")]
    Failed {
        /// The program.
        program: &'static str,
        /// Error output of the program or message of the error.
        said: String,
    },
    /// The server did not start in time.
    #[error("PostgreSQL did not come up in {}: see {}", .folder.display(), .log.display())]
    NotUp {
        /// The server's folder.
        folder: PathBuf,
        /// The server's log file.
        log: PathBuf,
    },
}

/// Options for starting a server.
#[derive(Clone, Debug)]
pub struct PrivateOptions {
    /// The server's folder, created if it does not exist; existing data is used again.
    pub folder: PathBuf,
    /// The data need not outlive this process: nothing is synced, and the folder is removed at the end.
    pub disposable: bool,
    /// Further settings, `name=value`.
    pub settings: Vec<String>,
}

/// A running server. Dropping this value stops it.
#[derive(Debug)]
pub struct PrivateServer {
    keeper: Child,
    folder: PathBuf,
    pid: u32,
}

/// User that runs PostgreSQL's programs, which refuse to run as root.
#[derive(Clone, Copy, Debug)]
enum RunsAs {
    /// This process's user.
    Itself,
    /// Root, mapped to these user and group ids in a namespace: its files belong to root, even outside the
    /// namespace.
    Mapped(u32, u32),
    /// [`USER`], which needs access to the server's folder.
    Other(u32, u32),
}

impl PrivateServer {
    /// Starts a server, and waits until it accepts connections. Blocks.
    ///
    /// # Errors
    /// [`PrivateError`].
    pub fn start(options: &PrivateOptions) -> Result<Self, PrivateError> {
        Self::begin(options, None)
    }

    /// Starts a standby that copies this server and follows it until `pg_promote()`. Blocks. This server's
    /// `synchronous_standby_names` decides whether commits wait for it.
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
            // Remove what an interrupted call has left, because `initdb` would refuse it.
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
        // A separate process group: an interrupt from the terminal ends this process first, which stops the
        // server.
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

    /// URL of a database of the server.
    pub fn url(&self, database: &str) -> String {
        self.url_of("kassette", database)
    }

    /// The same for a role.
    pub fn url_of(&self, role: &str, database: &str) -> String {
        let folder: String =
            url::form_urlencoded::byte_serialize(self.folder.as_os_str().as_encoded_bytes())
                .collect();
        format!("postgres://{role}@{folder}/{database}")
    }

    /// The server's process.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the server has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.keeper.try_wait(), Ok(None))
    }

    /// Creates a database if it does not exist.
    ///
    /// # Errors
    /// The server's message.
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

    /// Creates a role that can log in, if it does not exist.
    ///
    /// # Errors
    /// The server's message.
    pub async fn make_role(&self, name: &str) -> Result<(), String> {
        let made = self
            .administrate(&format!("CREATE ROLE {name} LOGIN"))
            .await;
        made.or_else(|said| match said.contains("(42710)") {
            true => Ok(()),
            false => Err(said),
        })
    }

    /// Executes a statement in the maintenance database.
    ///
    /// # Errors
    /// The server's message.
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
        // The session counts as a user of the database until then.
        let _ = connection.await;
        done
    }

    fn wait_until_up(&mut self, data: &Path, log: &Path) -> Result<(), PrivateError> {
        let began = Instant::now();
        while began.elapsed() < START_TIMEOUT && !self.has_ended() {
            // The server writes its PID in this file, and its status in the last line.
            if let Ok(text) = std::fs::read_to_string(data.join("postmaster.pid"))
                && text
                    .lines()
                    .nth(7)
                    .is_some_and(|line| line.trim() == "ready")
                && let Some(Ok(pid)) = text.lines().next().map(str::parse)
                // Ignore the PID file of a killed server.
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

/// Waits until a server ends whose parent process has just ended.
fn wait_for_the_one_before(data: &Path) -> Result<(), PrivateError> {
    let began = Instant::now();
    let lock = data.join("postmaster.pid");
    while let Ok(text) = std::fs::read_to_string(&lock) {
        let pid = text.lines().next().and_then(|line| line.parse().ok());
        // The new server itself handles a file that a crash has left.
        if !pid.is_some_and(is_server) {
            break;
        }
        if began.elapsed() > START_TIMEOUT {
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

/// Whether a process exists and is a PostgreSQL server.
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
        // Not every machine allows user namespaces.
        let mut tried = mapped.command("true".into(), folder);
        let tried = tried.stdout(Stdio::null()).stderr(Stdio::null()).status();
        Ok(match tried {
            Ok(status) if status.success() => mapped,
            _ => Self::Other(uid, gid),
        })
    }

    /// Makes the user the owner of a folder, and lets others traverse its parent folder.
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

/// Folder of the newest server's programs: from PATH, otherwise Debian's.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has =
        |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    if let Some(folder) = std::env::split_paths(&path).find(has) {
        // Some folders contain links to only some of the programs.
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
