//! Command-line options of the tests.

/// Default number of images per run.
const IMAGES: usize = 150;
/// Default number of deliveries to delete, each with 33 kB of responses.
const DELIVERIES: usize = 1500;

#[derive(Debug)]
pub(crate) struct Options {
    /// Number of power cuts to check.
    pub(crate) images: usize,
    /// Determines plan and images, but not the scheduling of threads.
    pub(crate) seed: u64,
    /// Number of deliveries to delete.
    pub(crate) deliveries: usize,
    /// Only list the tests.
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
                // Options of Rust's own test runner do not apply here.
                flag if flag.starts_with('-') => {}
                _ => options.filters.push(argument),
            }
        }
        options
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }
}
