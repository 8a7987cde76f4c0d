//! Records with `ptrace` which file system calls a child process makes below a folder: every write with its bytes,
//! every sync and every name change, in the order of their effects.
//!
//! `strace` is not installed everywhere, and a skipped test proves nothing, whereas `ptrace` of an own child needs
//! no privilege and no program. All threads of the process stop at the start and the end of each call. The
//! recorded order is also correct if one call depends on another (a sync on a write), because a thread continues
//! only after the end of its call was recorded.
//!
//! Calls that could change files in a way that is not modelled (shared writable mappings, `io_uring`, copies
//! between descriptors, links) abort the recording with their name.

use std::collections::HashMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libc::c_long;
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::disk::{Event, Node, Op};

/// Number and arguments of a system call.
struct Call {
    number: c_long,
    arguments: [u64; 6],
}

#[cfg(target_arch = "x86_64")]
fn call(registers: &libc::user_regs_struct) -> Call {
    let r = registers;
    Call {
        number: r.orig_rax.cast_signed(),
        arguments: [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9],
    }
}

#[cfg(target_arch = "x86_64")]
fn result(registers: &libc::user_regs_struct) -> i64 {
    registers.rax.cast_signed()
}

#[cfg(target_arch = "aarch64")]
fn call(registers: &libc::user_regs_struct) -> Call {
    let mut arguments = [0; 6];
    arguments.copy_from_slice(&registers.regs[..6]);
    Call {
        number: registers.regs[8].cast_signed(),
        arguments,
    }
}

#[cfg(target_arch = "aarch64")]
fn result(registers: &libc::user_regs_struct) -> i64 {
    registers.regs[0].cast_signed()
}

/// The record to make when a call returns.
enum Under {
    /// End of the call with this number.
    Way(u64),
    /// A file was opened with these flags.
    Open(u64),
    /// A folder was created.
    Folder(PathBuf),
    /// A name was changed: number of the call, old path, new path.
    Name(u64, PathBuf, Option<PathBuf>),
    /// Two names were exchanged: numbers of the calls, and the paths.
    Exchange(Vec<u64>, PathBuf, PathBuf),
}

/// Record of one or more consecutive processes.
pub(crate) struct Recorder {
    root: PathBuf,
    /// Files and folders by their current path.
    places: HashMap<PathBuf, Node>,
    /// The same by device and inode.
    inodes: HashMap<(u64, u64), Node>,
    files: usize,
    folders: usize,
    calls: u64,
    pub(crate) events: Vec<Event>,
}

impl Recorder {
    /// Creates a recorder for a folder with these files and folders.
    pub(crate) fn new(root: &Path, places: Vec<(PathBuf, Node)>) -> Self {
        let count = |is: fn(&Node) -> bool| places.iter().filter(|(_, node)| is(node)).count();
        let inode = |path: &Path| identity(path).unwrap();
        Self {
            root: root.to_owned(),
            inodes: places.iter().map(|(at, node)| (inode(at), *node)).collect(),
            files: count(|node| matches!(node, Node::File(_))),
            folders: count(|node| matches!(node, Node::Folder(_))),
            places: places.into_iter().collect(),
            calls: 0,
            events: Vec::new(),
        }
    }

    /// Runs a program to its end. It must wait for a line on standard input before it starts. Its lines on
    /// standard output are acknowledgements.
    #[expect(
        clippy::zombie_processes,
        reason = "whoever traces the process waits for it, with all its threads"
    )]
    pub(crate) fn run(&mut self, program: &mut Command) {
        let mut child = program
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let options = ptrace::Options::PTRACE_O_TRACESYSGOOD
            | ptrace::Options::PTRACE_O_TRACECLONE
            | ptrace::Options::PTRACE_O_TRACEFORK
            | ptrace::Options::PTRACE_O_TRACEVFORK
            | ptrace::Options::PTRACE_O_EXITKILL;
        ptrace::seize(pid, options).expect(
            "a process may not watch its own child here (ptrace is forbidden): allow it, \
             for a container with `--cap-add=SYS_PTRACE` or a seccomp profile that has ptrace",
        );
        ptrace::interrupt(pid).unwrap();
        let mut errors = child.stderr.take().unwrap();
        let said = std::thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let ended = Tracee::new(self, pid).follow();
        let said = said.join().unwrap();
        assert!(
            matches!(ended, WaitStatus::Exited(_, 0)),
            "{ended:?}: {said}"
        );
        self.settle();
    }

    /// Records the outcome of writes that were in flight when a process ended. The next process reads their result
    /// and may overwrite it: if they remained in flight, every later image could contain them on top.
    fn settle(&mut self) {
        let mut under_way = HashMap::new();
        for event in &self.events {
            match event {
                Event::Began(call, Op::Write { file, at, data }) => {
                    under_way.insert(*call, (*file, *at, data.clone()));
                }
                Event::Returned(call, _) => {
                    under_way.remove(call);
                }
                _ => {}
            }
        }
        for (call, (file, at, data)) in under_way {
            let is_it = |node: &Node| matches!(node, Node::File(each) if *each == file);
            let path = self.places.iter().find(|(_, node)| is_it(node));
            let found = path
                .map(|(path, _)| fs::read(path).unwrap())
                .unwrap_or_default();
            let found = found
                .get(usize::try_from(at).unwrap()..)
                .unwrap_or_default();
            let took = found
                .iter()
                .zip(data.iter())
                .take_while(|(a, b)| a == b)
                .count();
            if took == 0 {
                let is_it = |event: &Event| matches!(event, Event::Began(each, _) if *each == call);
                self.events.retain(|event| !is_it(event));
            } else {
                self.events.push(Event::Returned(call, Some(took)));
            }
        }
    }

    fn call(&mut self, op: Op) -> u64 {
        self.calls += 1;
        self.events.push(Event::Began(self.calls, op));
        self.calls
    }

    fn returned(&mut self, call: u64, result: i64) {
        let done = usize::try_from(result).ok();
        self.events.push(Event::Returned(call, done));
    }

    /// Index of the parent folder, and the last name of a path.
    fn name(&self, path: &Path) -> Option<(usize, String)> {
        let Some(Node::Folder(folder)) = self.places.get(path.parent()?) else {
            return None;
        };
        Some((*folder, path.file_name()?.to_str()?.to_owned()))
    }

    fn add(&mut self, path: &Path, node: Node) {
        let (folder, name) = self
            .name(path)
            .unwrap_or_else(|| panic!("{} is in no folder that is known", path.display()));
        self.places.insert(path.to_owned(), node);
        self.inodes.insert(identity(path).unwrap(), node);
        let call = self.call(Op::Add { folder, name, node });
        self.returned(call, 0);
    }

    /// Exchanges the paths of two files or folders, including their contents.
    fn exchanged(&mut self, one: &Path, other: &Path) {
        let moved = |path: PathBuf| match (path.strip_prefix(one), path.strip_prefix(other)) {
            (Ok(rest), _) => other.join(rest),
            (_, Ok(rest)) => one.join(rest),
            _ => path,
        };
        let places = std::mem::take(&mut self.places).into_iter();
        self.places = places.map(|(path, node)| (moved(path), node)).collect();
    }

    fn renamed(&mut self, from: &Path, to: Option<&Path>) {
        let Some(node) = self.places.remove(from) else {
            return;
        };
        if let Some(to) = to {
            self.places.insert(to.to_owned(), node);
        }
    }
}

/// A running process.
struct Tracee<'a> {
    recorder: &'a mut Recorder,
    pid: Pid,
    memory: fs::File,
    /// Current call of each thread.
    under: HashMap<Pid, Under>,
}

impl<'a> Tracee<'a> {
    fn new(recorder: &'a mut Recorder, pid: Pid) -> Self {
        Self {
            recorder,
            pid,
            memory: fs::File::open(format!("/proc/{pid}/mem")).unwrap(),
            under: HashMap::new(),
        }
    }

    /// Runs the process to its end.
    fn follow(mut self) -> WaitStatus {
        // Wait only for children of this thread: the process may have others.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        loop {
            let status = match waitpid(Pid::from_raw(-1), Some(flags)) {
                Err(Errno::EINTR) => continue,
                status => status.unwrap(),
            };
            let (thread, signal) = match status {
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) if pid == self.pid => {
                    return status;
                }
                WaitStatus::PtraceSyscall(thread) => {
                    self.stopped(thread);
                    (thread, None)
                }
                WaitStatus::PtraceEvent(thread, ..) => (thread, None),
                WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
                _ => continue,
            };
            match ptrace::syscall(thread, signal) {
                // The process has ended in the meantime.
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => panic!("a thread does not run on: {error}"),
            }
        }
    }

    /// Handles a thread that stopped at the start or end of a call.
    fn stopped(&mut self, thread: Pid) {
        let (Ok(info), Ok(registers)) = (ptrace::syscall_info(thread), ptrace::getregs(thread))
        else {
            return;
        };
        if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
            let under = self.begins(thread, &call(&registers));
            if let Some(under) = under {
                self.under.insert(thread, under);
            }
        } else if let Some(under) = self.under.remove(&thread) {
            self.ends(under, result(&registers));
        }
    }

    fn begins(&mut self, thread: Pid, call: &Call) -> Option<Under> {
        let a = &call.arguments;
        let begun = |call: u64| Some(Under::Way(call));
        match call.number {
            libc::SYS_write if a[0] == 1 => {
                let text = self.bytes(a[1], a[2]);
                for line in String::from_utf8(text).unwrap().lines() {
                    let line = Event::Acknowledged(line.to_owned());
                    self.recorder.events.push(line);
                }
                None
            }
            libc::SYS_write => {
                let file = self.file(a[0])?;
                let at = self.position(a[0]);
                let data = self.bytes(a[1], a[2]).into();
                begun(self.recorder.call(Op::Write { file, at, data }))
            }
            libc::SYS_pwrite64 => {
                let file = self.file(a[0])?;
                let (at, data) = (a[3], self.bytes(a[1], a[2]).into());
                begun(self.recorder.call(Op::Write { file, at, data }))
            }
            libc::SYS_fsync | libc::SYS_fdatasync => {
                let node = self.node(a[0])?;
                let data_only = call.number == libc::SYS_fdatasync;
                begun(self.recorder.call(Op::Sync { node, data_only }))
            }
            libc::SYS_ftruncate => {
                let (file, length) = (self.file(a[0])?, a[1]);
                begun(self.recorder.call(Op::SetLength { file, length }))
            }
            libc::SYS_openat => Some(Under::Open(a[2])),
            libc::SYS_mkdirat => self.path(thread, a[0], a[1]).map(Under::Folder),
            libc::SYS_unlinkat => {
                let path = self.path(thread, a[0], a[1])?;
                self.unlink(path)
            }
            libc::SYS_renameat | libc::SYS_renameat2 => {
                let (from, to) = (self.path(thread, a[0], a[1]), self.path(thread, a[2], a[3]));
                let exchange = u64::from(libc::RENAME_EXCHANGE);
                match call.number == libc::SYS_renameat2 && a[4] & exchange != 0 {
                    true => self.exchange(from?, to?),
                    false => self.rename(from?, to?),
                }
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => self.path(thread, HERE, a[0]).map(Under::Folder),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => {
                let path = self.path(thread, HERE, a[0])?;
                self.unlink(path)
            }
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => {
                let (from, to) = (self.path(thread, HERE, a[0]), self.path(thread, HERE, a[1]));
                self.rename(from?, to?)
            }
            number => {
                self.refuse(number, a);
                None
            }
        }
    }

    fn unlink(&mut self, path: PathBuf) -> Option<Under> {
        let (folder, name) = self.recorder.name(&path)?;
        let call = self.recorder.call(Op::Remove { folder, name });
        Some(Under::Name(call, path, None))
    }

    fn rename(&mut self, from: PathBuf, to: PathBuf) -> Option<Under> {
        let ((folder, old), (into, new)) = (self.recorder.name(&from)?, self.recorder.name(&to)?);
        assert_eq!(folder, into, "a move between folders is not modelled");
        let node = *self.recorder.places.get(&from)?;
        let call = self.recorder.call(Op::Rename {
            folder,
            from: old,
            to: new,
            node,
        });
        Some(Under::Name(call, from, Some(to)))
    }

    fn exchange(&mut self, one: PathBuf, other: PathBuf) -> Option<Under> {
        let ((folder, name), (into, new)) =
            (self.recorder.name(&one)?, self.recorder.name(&other)?);
        let nodes = [&one, &other].map(|path| self.recorder.places[path]);
        let ops = if folder == into {
            let names = [name, new];
            vec![Op::Exchange {
                folder,
                names,
                nodes,
            }]
        } else {
            // Only lock files, whose contents are never read.
            let add = |folder, name, node| Op::Add { folder, name, node };
            vec![add(folder, name, nodes[1]), add(into, new, nodes[0])]
        };
        let calls = ops.into_iter().map(|op| self.recorder.call(op)).collect();
        Some(Under::Exchange(calls, one, other))
    }

    /// Aborts the recording if a call could change a file unnoticed.
    fn refuse(&self, number: c_long, a: &[u64; 6]) {
        let writable = u64::from((libc::PROT_WRITE).cast_unsigned());
        let shared = u64::from((libc::MAP_SHARED).cast_unsigned());
        let unseen = match number {
            libc::SYS_mmap => {
                a[2] & writable != 0 && a[3] & shared != 0 && self.node(a[4]).is_some()
            }
            libc::SYS_writev
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_fallocate
            | libc::SYS_sendfile => self.node(a[0]).is_some(),
            libc::SYS_copy_file_range | libc::SYS_splice => self.node(a[2]).is_some(),
            libc::SYS_io_uring_setup
            | libc::SYS_io_submit
            | libc::SYS_truncate
            | libc::SYS_linkat
            | libc::SYS_symlinkat
            | libc::SYS_openat2
            | libc::SYS_sync
            | libc::SYS_syncfs => true,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open
            | libc::SYS_creat
            | libc::SYS_link
            | libc::SYS_symlink
            | libc::SYS_rmdir => true,
            _ => false,
        };
        assert!(
            !unseen,
            "system call {number} is not modelled: teach the recorder what it does"
        );
    }

    fn ends(&mut self, under: Under, result: i64) {
        match under {
            Under::Way(call) => self.recorder.returned(call, result),
            Under::Open(flags) if result >= 0 => self.opened(result.cast_unsigned(), flags),
            Under::Folder(path) if result == 0 => {
                let node = Node::Folder(self.recorder.folders);
                self.recorder.folders += 1;
                self.recorder.add(&path, node);
            }
            Under::Name(call, from, to) => {
                self.recorder.returned(call, result);
                if result == 0 {
                    self.recorder.renamed(&from, to.as_deref());
                }
            }
            Under::Exchange(calls, one, other) => {
                for call in calls {
                    self.recorder.returned(call, result);
                }
                if result == 0 {
                    self.recorder.exchanged(&one, &other);
                }
            }
            Under::Open(_) | Under::Folder(_) => {}
        }
    }

    /// Records that a file below the folder was opened, which may have created or truncated it.
    fn opened(&mut self, descriptor: u64, flags: u64) {
        let flag = |flag: i32| flags & u64::from(flag.cast_unsigned()) != 0;
        let Ok(path) = fs::read_link(self.descriptor(descriptor)) else {
            return;
        };
        if !path.starts_with(&self.recorder.root) {
            return;
        }
        assert!(!flag(libc::O_APPEND), "appending is not modelled");
        match self.recorder.places.get(&path) {
            None => {
                let node = Node::File(self.recorder.files);
                self.recorder.files += 1;
                self.recorder.add(&path, node);
            }
            Some(Node::File(file)) if flag(libc::O_TRUNC) => {
                let (file, length) = (*file, 0);
                let call = self.recorder.call(Op::SetLength { file, length });
                self.recorder.returned(call, 0);
            }
            Some(_) => {}
        }
    }

    fn descriptor(&self, descriptor: u64) -> PathBuf {
        format!("/proc/{}/fd/{}", self.pid, descriptor.cast_signed()).into()
    }

    /// Node of a descriptor. `None` if it is not below the folder.
    fn node(&self, descriptor: u64) -> Option<Node> {
        let identity = identity(&self.descriptor(descriptor)).ok()?;
        self.recorder.inodes.get(&identity).copied()
    }

    fn file(&self, descriptor: u64) -> Option<usize> {
        match self.node(descriptor)? {
            Node::File(file) => Some(file),
            Node::Folder(_) => None,
        }
    }

    /// File position of a descriptor.
    fn position(&self, descriptor: u64) -> u64 {
        let path = format!("/proc/{}/fdinfo/{descriptor}", self.pid);
        let text = fs::read_to_string(path).unwrap();
        let position = text.lines().find_map(|line| line.strip_prefix("pos:"));
        position.unwrap().trim().parse().unwrap()
    }

    fn bytes(&self, address: u64, length: u64) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(length).unwrap()];
        self.memory.read_exact_at(&mut bytes, address).unwrap();
        bytes
    }

    /// Path argument of a call. `None` if it is not below the folder.
    fn path(&self, thread: Pid, folder: u64, address: u64) -> Option<PathBuf> {
        let mut bytes = vec![0; usize::try_from(libc::PATH_MAX).unwrap()];
        // The mapping may end earlier.
        let read = self.memory.read_at(&mut bytes, address).unwrap();
        let end = bytes[..read].iter().position(|byte| *byte == 0).unwrap();
        let text = Path::new(std::str::from_utf8(&bytes[..end]).ok()?).to_owned();
        let path = if text.is_absolute() {
            text
        } else if folder & u64::from(u32::MAX) == HERE {
            let here = fs::read_link(format!("/proc/{thread}/cwd")).unwrap();
            here.join(text)
        } else {
            fs::read_link(self.descriptor(folder)).unwrap().join(text)
        };
        path.starts_with(&self.recorder.root).then_some(path)
    }
}

/// Descriptor value for the working directory.
const HERE: u64 = libc::AT_FDCWD.cast_unsigned() as u64;

/// Device and inode, which identify a file or folder.
fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}
