//! Records of processes that worked on a store, and checks of their images.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};

use crate::disk::{Disk, Event, Image, Node, Op};
use crate::driver::{End, STATES, TOLD};
use crate::judge::{Acknowledged, Judge, runtime};
use crate::log::Log;
use crate::random::Random;
use crate::recorder::Recorder;

/// Number of threads that check images.
const JUDGES: usize = 2;
/// Of this many images, one is closed, reopened and checked again.
const AGAIN: usize = 8;

/// The store's `SEGMENT_BYTES`.
pub(crate) const SEGMENT: u64 = 8 << 20;

/// Calls of consecutive processes, and the disk before them.
pub(crate) struct Record {
    base: Disk,
    known: Acknowledged,
    events: Vec<Event>,
}

/// An image with a fault.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) why: String,
    pub(crate) place: String,
}

/// Statistics of a record, to check that its images are meaningful.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) calls: usize,
    pub(crate) syncs: usize,
    pub(crate) acknowledged: usize,
    pub(crate) bytes: usize,
    pub(crate) snapshots: usize,
    pub(crate) blobs: usize,
    /// Number of log segments that were overwritten.
    pub(crate) reused: usize,
}

impl Record {
    /// Runs processes below a folder, each with a number of operations and an end.
    pub(crate) fn run(
        root: &Path,
        judge: &Judge,
        known: Acknowledged,
        seed: u64,
        processes: &[(usize, End)],
    ) -> Self {
        let (base, places) = Disk::of_folder(root).unwrap();
        let mut recorder = Recorder::new(root, places);
        for (operations, end) in processes {
            let end = match end {
                End::InOrder => "in-order",
                End::AtOnce => "at-once",
                End::WrittenAnew => "written-anew",
            };
            let plan = judge.plan().told(seed);
            let told = format!("{plan} {operations} {end} {}", root.display());
            let mut program = Command::new(std::env::current_exe().unwrap());
            recorder.run(program.env(TOLD, told).env(STATES, judge.states()));
        }
        let mut disk = base.clone();
        recorder.events.iter().for_each(|event| disk.happen(event));
        for (path, bytes) in disk.cut_by(false, &mut Random::new(seed), |_| true).files {
            let real = std::fs::read(root.join(&path)).unwrap();
            assert!(
                real == bytes,
                "{} is not as it was recorded",
                path.display()
            );
        }
        Self {
            base,
            known,
            events: recorder.events,
        }
    }

    /// Statistics of the record.
    pub(crate) fn content(&self) -> Content {
        let mut content = Content::default();
        let mut names = BTreeMap::new();
        let mut headers: BTreeMap<(usize, u64), usize> = BTreeMap::new();
        for event in &self.events {
            content.calls += usize::from(matches!(event, Event::Began(..)));
            match event {
                Event::Acknowledged(line) if line.starts_with("done") => content.acknowledged += 1,
                Event::Began(_, Op::Sync { .. }) => content.syncs += 1,
                Event::Began(_, Op::Rename { to, .. }) if to.starts_with("snap.") => {
                    content.snapshots += 1;
                }
                Event::Began(_, Op::Add { name, node, .. }) => {
                    // Names of blobs are numbers.
                    content.blobs += usize::from(name.parse::<u64>().is_ok());
                    names.insert(*node, name.clone());
                }
                Event::Began(_, Op::Write { file, at, data }) => {
                    content.bytes += data.len();
                    let is_log = names
                        .get(&Node::File(*file))
                        .is_some_and(|name| name == "db");
                    if is_log && at % SEGMENT == 0 && data.iter().any(|byte| *byte != 0) {
                        *headers.entry((*file, *at)).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
        content.reused = headers.values().filter(|written| **written > 1).count();
        content
    }

    /// Number of syncs of the database between the rename of a snapshot and the sync of its name.
    ///
    /// Left out are syncs after the database's last change emptied a segment, by zeros or by cutting it off the
    /// file's end: sled syncs those itself, from several threads, and what was in them is not missed (`tail`).
    pub(crate) fn syncs_before_a_snapshots_name(&self) -> usize {
        let mut database = Vec::new();
        let mut nameless = None;
        let (mut early, mut emptied) = (0, false);
        for event in &self.events {
            let Event::Began(_, op) = event else { continue };
            match op {
                Op::Add { name, node, .. } if name == "db" => database.push(*node),
                Op::Rename { folder, to, .. } if to.starts_with("snap.") => {
                    nameless = Some(Node::Folder(*folder));
                }
                Op::Sync { node, .. } if nameless == Some(*node) => nameless = None,
                Op::Sync { node, .. } if database.contains(node) && !emptied => {
                    early += usize::from(nameless.is_some());
                }
                _ => {}
            }
            match op {
                Op::SetLength { file, .. } if database.contains(&Node::File(*file)) => {
                    emptied = true
                }
                Op::Write { file, at, .. } if database.contains(&Node::File(*file)) => {
                    emptied = at % SEGMENT == 0 && op.is_zeros(SEGMENT);
                }
                _ => {}
            }
        }
        early
    }

    /// A copy without the effect of some syncs.
    pub(crate) fn without(&self, is_left_out: impl Fn(&Op) -> bool) -> Self {
        let mut left_out = Vec::new();
        let mut events = self.events.clone();
        events.retain(|event| match event {
            Event::Began(call, op) if is_left_out(op) => {
                left_out.push(*call);
                false
            }
            Event::Returned(call, _) => !left_out.contains(call),
            _ => true,
        });
        Self {
            base: self.base.clone(),
            known: self.known.clone(),
            events,
        }
    }

    /// A copy as if sled's writes were not durable: the database is synced only at a start, and before sled
    /// records how much of it is on the disk.
    pub(crate) fn without_durable_write(&self) -> Self {
        let (database, noted) = (self.named("db"), self.named("checkpointed"));
        let (mut kept, mut late) = (Vec::new(), Vec::new());
        for event in &self.events {
            match event {
                Event::Began(call, Op::Sync { node, .. }) if database.contains(node) => {
                    late.push(*call);
                }
                Event::Began(_, op @ Op::Write { .. }) if noted.contains(&op.node()) => {
                    kept.extend(late.pop());
                    late.clear();
                }
                Event::Acknowledged(line) if line.starts_with("seen") => kept.append(&mut late),
                _ => {}
            }
        }
        kept.extend(late);
        let mut left_out = Vec::new();
        let mut events = self.events.clone();
        events.retain(|event| match event {
            Event::Began(
                call,
                Op::Sync {
                    node,
                    data_only: true,
                },
            ) if database.contains(node) && !kept.contains(call) => {
                left_out.push(*call);
                false
            }
            Event::Returned(call, _) => !left_out.contains(call),
            _ => true,
        });
        Self {
            base: self.base.clone(),
            known: self.known.clone(),
            events,
        }
    }

    /// Files that have or had this name.
    fn named(&self, name: &str) -> Vec<Node> {
        let added = self.events.iter().filter_map(|event| match event {
            Event::Began(
                _,
                Op::Add {
                    name: added, node, ..
                },
            ) if added == name => Some(*node),
            _ => None,
        });
        self.base
            .named(name)
            .map(|(node, _)| node)
            .chain(added)
            .collect()
    }

    /// State of sled's log after all events.
    pub(crate) fn log(&self) -> Log {
        let mut log = Log::new(self.named("db"), &self.base);
        self.events.iter().for_each(|event| log.happen(event));
        log
    }

    /// Everything that was acknowledged by the end.
    pub(crate) fn acknowledged(&self, judge: &Judge) -> Acknowledged {
        let mut known = self.known.clone();
        for event in &self.events {
            if let Event::Acknowledged(line) = event {
                known.hear(judge.plan(), line);
            }
        }
        known
    }

    /// Random points for power cuts: a quarter anywhere, a quarter directly after a sync or an acknowledgement, a
    /// quarter at name changes, and a quarter when much of the database is not synced.
    fn points(&self, count: usize, random: &mut Random) -> Vec<usize> {
        let places = |is: fn(&Event) -> bool| -> Vec<usize> {
            let events = self.events.iter().enumerate();
            events
                .filter(|(_, event)| is(event))
                .map(|(at, _)| at)
                .collect()
        };
        let syncs = places(|event| {
            matches!(
                event,
                Event::Acknowledged(_) | Event::Began(_, Op::Sync { .. })
            )
        });
        let names = places(|event| {
            matches!(
                event,
                Event::Began(
                    _,
                    Op::Add { .. } | Op::Remove { .. } | Op::Rename { .. } | Op::Exchange { .. }
                )
            )
        });
        let late = self.log().late(count, random);
        let mut points: Vec<usize> = (0..count)
            .map(|number| {
                let near = match number % 4 {
                    0 => return random.below(self.events.len() + 1),
                    1 => &syncs,
                    2 => &names,
                    _ => return late[number],
                };
                let at = near.get(random.below(near.len())).copied();
                at.unwrap_or_default() + random.below(4)
            })
            .map(|point| point.min(self.events.len()))
            .collect();
        points.sort_unstable();
        points
    }

    /// Creates an image at each of these points and passes it to `then`.
    fn cut(
        &self,
        judge: &Judge,
        points: &[usize],
        random: &mut Random,
        mut then: impl FnMut(usize, Image, &Acknowledged),
    ) {
        let (mut disk, mut known) = (self.base.clone(), self.known.clone());
        let mut happened = 0;
        for point in points {
            for event in &self.events[happened..*point] {
                disk.happen(event);
                if let Event::Acknowledged(line) = event {
                    known.hear(judge.plan(), line);
                }
            }
            happened = *point;
            then(*point, disk.cut(random), &known);
        }
    }

    /// A random image from which the next process continues.
    pub(crate) fn image(&self, judge: &Judge, random: &mut Random) -> (Image, Acknowledged) {
        let points = [self.events.len() / 3 + random.below(self.events.len() / 3)];
        let mut found = None;
        self.cut(judge, &points, random, |_, image, known| {
            found = Some((image, known.clone()));
        });
        found.unwrap()
    }

    /// Creates images of starts that are interrupted after sled has zeroed or truncated a segment of its log, and
    /// before its snapshot's name is synced. The name is missing in all of them. Older snapshots exist or not; the
    /// zeros are complete, or only in some sectors.
    fn cut_starts(
        &self,
        judge: &Judge,
        random: &mut Random,
        mut then: impl FnMut(usize, Image, &Acknowledged),
    ) {
        let (mut disk, mut known) = (self.base.clone(), self.known.clone());
        let mut database = Vec::new();
        let (mut nameless, mut emptied, mut naming) = (None, false, None);
        for (at, event) in self.events.iter().enumerate() {
            disk.happen(event);
            match event {
                Event::Acknowledged(line) => known.hear(judge.plan(), line),
                Event::Began(call, op) => match op {
                    Op::Add { name, node, .. } if name == "db" => database.push(*node),
                    Op::Rename { to, .. } if to.starts_with("snap.") => nameless = Some(op.node()),
                    Op::Sync { node, .. } if nameless == Some(*node) => naming = Some(*call),
                    Op::Write { .. } | Op::SetLength { .. } if nameless.is_some() => {
                        let empties = op.is_zeros(SEGMENT) || matches!(op, Op::SetLength { .. });
                        emptied |= empties && database.contains(&op.node());
                    }
                    _ => {}
                },
                Event::Returned(call, _) if naming == Some(*call) => {
                    (nameless, emptied, naming) = (None, false, None);
                }
                Event::Returned(..) => {}
            }
            if !emptied {
                continue;
            }
            for (older, torn) in [(true, false), (true, true), (false, false), (false, true)] {
                let mut image = disk.cut_by(torn, random, |op| match op {
                    Op::Rename { to, .. } => !to.starts_with("snap."),
                    Op::Remove { name, .. } if name.starts_with("snap.") => !older,
                    _ => true,
                });
                image.manner = format!("a start, older snapshots: {older}, torn: {torn}");
                then(at, image, &known);
            }
        }
    }

    /// Checks images at random points. Copies those with a fault to `keep`.
    pub(crate) fn judge(
        &self,
        judge: &Arc<Judge>,
        count: usize,
        seed: u64,
        keep: Option<&Path>,
    ) -> Vec<Loss> {
        let mut random = Random::new(seed);
        let points = self.points(count, &mut random);
        self.judge_each(judge, seed, keep, |then| {
            self.cut(judge, &points, &mut random, then);
        })
    }

    /// Checks images at points when much of the database is not synced.
    pub(crate) fn judge_late(&self, judge: &Arc<Judge>, count: usize, seed: u64) -> Vec<Loss> {
        let mut random = Random::new(seed);
        let mut points = self.log().late(count, &mut random);
        points.sort_unstable();
        self.judge_each(judge, seed, None, |then| {
            self.cut(judge, &points, &mut random, then);
        })
    }

    /// Checks images of starts that are interrupted before the snapshot's name is on the disk. Also returns the
    /// number of images.
    pub(crate) fn judge_starts(
        &self,
        judge: &Arc<Judge>,
        seed: u64,
        keep: Option<&Path>,
    ) -> (usize, Vec<Loss>) {
        let mut images = 0;
        let losses = self.judge_each(judge, seed, keep, |then| {
            self.cut_starts(judge, &mut Random::new(seed), |point, image, known| {
                images += 1;
                then(point, image, known);
            });
        });
        (images, losses)
    }

    /// Checks all images that `make` creates.
    fn judge_each(
        &self,
        judge: &Arc<Judge>,
        seed: u64,
        keep: Option<&Path>,
        make: impl FnOnce(&mut dyn FnMut(usize, Image, &Acknowledged)),
    ) -> Vec<Loss> {
        type Work = (usize, usize, Image, Acknowledged, PathBuf);
        let place = scratch();
        let losses = Mutex::new(Vec::new());
        let (send, work) = mpsc::sync_channel::<Work>(JUDGES);
        let work = Mutex::new(work);
        std::thread::scope(|scope| {
            for _ in 0..JUDGES {
                scope.spawn(|| {
                    loop {
                        let next = work.lock().unwrap().recv();
                        let Ok((number, point, image, known, folder)) = next else {
                            break;
                        };
                        if let Err(why) =
                            verdict(judge, &image, &known, number % AGAIN == 0, &folder)
                        {
                            let mut place = format!(
                                "point {point} of {}, {} acknowledged, {}",
                                self.events.len(),
                                known.done(),
                                image.manner
                            );
                            if let Some(keep) = keep {
                                let kept = keep.join(format!("{seed}-{number}"));
                                image.write(&kept).unwrap();
                                place = format!("{place}, kept in {}", kept.display());
                            }
                            losses.lock().unwrap().push(Loss { why, place });
                        }
                    }
                });
            }
            let mut number = 0;
            make(&mut |point, image, known| {
                number += 1;
                let folder = place.path().join(number.to_string());
                let work = (number, point, image, known.clone(), folder);
                // Sending fails only if the judges have panicked, which the scope reports.
                let _judged = send.send(work);
            });
            drop(send);
        });
        losses.into_inner().unwrap()
    }
}

fn verdict(
    judge: &Arc<Judge>,
    image: &Image,
    known: &Acknowledged,
    again: bool,
    folder: &Path,
) -> Result<(), String> {
    image.write(folder).unwrap();
    let (judge, known, root) = (Arc::clone(judge), known.clone(), folder.to_owned());
    // A panic of the store or of its engine is a fault too.
    let judged = std::thread::spawn(move || runtime().block_on(judge.judge(&root, &known, again)));
    let verdict = judged.join().unwrap_or_else(|_| Err("it panics".into()));
    // sled may still use the folder for a moment; the parent folder is removed at the end.
    let _ = std::fs::remove_dir_all(folder);
    verdict
}

/// A folder for images, in memory if possible.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}
