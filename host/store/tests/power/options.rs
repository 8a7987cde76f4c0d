//! What the tests are told.

/// Images of one run, unless told otherwise.
const IMAGES: usize = 150;
/// Deliveries that are pruned, with 33 kB of answers each, unless told otherwise.
const DELIVERIES: usize = 1500;

/// What the tests are told on the command line.
#[derive(Debug)]
pub(crate) struct Options {
    /// Power cuts to judge.
    pub(crate) images: usize,
    /// What plan and images follow from; when which thread runs does not.
    pub(crate) seed: u64,
    /// Deliveries to prune.
    pub(crate) deliveries: usize,
    /// Name the tests and do nothing.
    pub(crate) list: bool,
    filters: Vec<String>,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut options = Self {
            images: IMAGES,
            seed: u64::from(std::process::id()),
            deliveries: DELIVERIES,
            list: false,
            filters: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            let mut number = |name: &str| -> u64 {
                let value = arguments.next().and_then(|value| value.parse().ok());
                value.unwrap_or_else(|| panic!("{name} takes a number"))
            };
            match argument.as_str() {
                "--images" => options.images = usize::try_from(number("--images")).unwrap(),
                "--seed" => options.seed = number("--seed"),
                "--deliveries" => {
                    options.deliveries = usize::try_from(number("--deliveries")).unwrap();
                }
                "--list" => options.list = true,
                // What Rust's own tests understand means nothing here.
                flag if flag.starts_with('-') => {}
                _ => options.filters.push(argument),
            }
        }
        options
    }

    /// Whether a test is asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }
}
