//! `[rates]` of `kassette.toml`, and the file of exchange rates that it names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kassette_domain::money::{Currency, Rate};
use kassette_domain::rates::{RateSource, RateTable, TableRef};
use kassette_domain::time::Time;
use kassette_files::Holds;
use kassette_http::Guard;
use serde::Deserialize;
use url::Url;

use super::releases::Moment;
use super::{Config, ConfigError, Profile, access, parse};

/// URL of the European Central Bank's daily rates.
const ECB: &str = "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml";
/// Invoice currencies without a rate from the European Central Bank.
const NOT_OF_THE_ECB: [Currency; 1] = [Currency::AED];

/// Sources of exchange rates, in addition to the merchants' own.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rates {
    /// Rates file of the operator.
    pub(crate) file: Option<PathBuf>,
    /// Whether the rates of the European Central Bank are fetched.
    ecb: bool,
    ecb_url: String,
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            file: None,
            ecb: false,
            ecb_url: ECB.to_owned(),
        }
    }
}

impl Rates {
    /// URL of the European Central Bank's rates. `None` if they are disabled or the guard rejects the URL.
    pub(crate) fn ecb(&self, profile: Profile) -> Option<Url> {
        self.judged(profile).ok().filter(|_| self.ecb)
    }

    /// Returns an error text if the guard rejects the URL.
    pub(super) fn problem(&self, profile: Profile) -> Option<String> {
        let why = self.judged(profile).err()?;
        Some(format!("rates.ecb_url: {why}"))
    }

    fn judged(&self, profile: Profile) -> Result<Url, kassette_http::Refused> {
        guard(profile).judge(&self.ecb_url)
    }
}

/// Guard that checks configured URLs.
pub(crate) fn guard(profile: Profile) -> Guard {
    Guard {
        allow_loopback: profile == Profile::Dev,
    }
}

impl Config {
    /// The file of exchange rates.
    pub(crate) fn rates_file(&self) -> Option<PathBuf> {
        self.main.rates.file.as_deref().map(|path| self.path(path))
    }

    /// Checks the rates file. Returns its problems, or a warning that names the currencies without a rate from any
    /// source.
    pub(crate) fn check_rates(
        &self,
        profile: Profile,
        now: Time,
    ) -> (Vec<ConfigError>, Option<String>) {
        let file = self.rates_file();
        let table = match file.as_deref().map(|path| read_rates(path, profile, now)) {
            None => None,
            Some(Ok(table)) => Some(table),
            Some(Err(wrong)) => return (wrong, None),
        };
        let ecb = self.main.rates.ecb;
        if table.is_none() && !ecb {
            // Each merchant has its own rates.
            return (Vec::new(), None);
        }
        let has = |currency: &Currency| {
            let in_file = table.as_ref().is_some_and(|table| table.has(*currency));
            in_file || (ecb && !NOT_OF_THE_ECB.contains(currency))
        };
        let missing = Currency::ALL.into_iter().filter(|currency| !has(currency));
        let missing: Vec<_> = missing.map(Currency::code).collect();
        let warning = (!missing.is_empty()).then(|| {
            format!(
                "kassette.toml: [rates]: no source has a rate for {}: merchants that invoice in it need rates of \
                 their own",
                missing.join(", ")
            )
        });
        (Vec::new(), warning)
    }
}

/// Format of the file. Exactly one of the two tables holds the rates.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    date: Moment,
    usd_per_unit: Option<BTreeMap<String, toml::Value>>,
    units_per_euro: Option<BTreeMap<String, toml::Value>>,
}

/// Reads a rates file. Its date must not be after `now`, because the age of the rates counts from it.
///
/// # Errors
/// All problems with the file.
pub(crate) fn read_rates(
    path: &Path,
    profile: Profile,
    now: Time,
) -> Result<RateTable, Vec<ConfigError>> {
    if profile == Profile::Serve {
        access::refused(path, Holds::Settings).map_err(|error| vec![error])?;
    }
    let file: File = parse(path).map_err(|error| vec![error])?;
    table(file, now).map_err(|problems| {
        let problems = problems.into_iter();
        problems
            .map(|why| ConfigError::new(path, why).placed())
            .collect()
    })
}

fn table(file: File, now: Time) -> Result<RateTable, Vec<String>> {
    let (name, base, written) = match (file.usd_per_unit, file.units_per_euro) {
        (Some(rates), None) => ("usd_per_unit", Currency::USD, rates),
        (None, Some(rates)) => ("units_per_euro", Currency::EUR, rates),
        (None, None) => {
            let why = "there are no rates: write them in [usd_per_unit] or in [units_per_euro]";
            return Err(vec![why.to_owned()]);
        }
        (Some(_), Some(_)) => {
            let why = "units_per_euro stands beside usd_per_unit: write all rates in one of them";
            return Err(vec![why.to_owned()]);
        }
    };
    let mut problems = Vec::new();
    let date = date(&file.date.text(), now).unwrap_or_else(|why| {
        problems.push(why);
        now
    });
    let mut rates = BTreeMap::new();
    for (code, value) in written {
        match rate(&code, &value, base) {
            Ok((currency, rate)) => drop(rates.insert(currency, rate)),
            Err(why) => problems.push(format!("{name}.{}: {why}", code.escape_debug())),
        }
    }
    if rates.is_empty() && problems.is_empty() {
        problems.push(format!("{name} has no rates"));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let of = TableRef {
        source: RateSource::File,
        date,
    };
    match base {
        Currency::EUR => {
            RateTable::of_euros(of, &rates).map_err(|why| vec![format!("{name} {why}")])
        }
        _ => Ok(RateTable::of_dollars(of, rates)),
    }
}

/// Time of the rates: midnight UTC of a date, or a time with an offset.
fn date(text: &str, now: Time) -> Result<Time, String> {
    let date = Time::parse_date(text).or_else(|| Time::parse_rfc3339(text));
    let date = date.ok_or_else(|| {
        format!(
            "date = {text} must be a date of UTC such as 2026-11-25, or a time with its offset such as \
             2026-11-25T14:30:00Z"
        )
    })?;
    if date > now {
        return Err(format!(
            "date = {text} is ahead of this machine's clock, and ages count from it: write of when the rates \
             are, in UTC"
        ));
    }
    Ok(date)
}

fn rate(code: &str, value: &toml::Value, base: Currency) -> Result<(Currency, Rate), String> {
    let currency = Currency::parse(code).ok_or_else(|| {
        let known = Currency::ALL.map(Currency::code);
        format!("is no supported currency; there are {}", known.join(", "))
    })?;
    if currency == base {
        return Err(format!("{base} is 1 and needs no rate"));
    }
    let toml::Value::String(text) = value else {
        return Err("must be a text, in quotes, such as \"1.0823\"".to_owned());
    };
    let rate = Rate::parse(text).map_err(|_| {
        "must be a positive decimal with at most ten decimals, such as \"1.0823\"".to_owned()
    })?;
    Ok((currency, rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_domain::money::Margin;

    /// 2026-11-25T18:00:00Z
    const NOW: Time = Time::from_secs(1_795_629_600);

    fn read(text: &str) -> Result<RateTable, Vec<(Option<usize>, String)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rates.toml");
        std::fs::write(&path, text).unwrap();
        let read = read_rates(&path, Profile::Dev, NOW);
        read.map_err(|errors| {
            errors
                .into_iter()
                .map(|error| (error.line, error.why))
                .collect()
        })
    }

    fn rates(text: &str) -> Vec<(Currency, String)> {
        let table = read(text).unwrap();
        let rate = |currency| Some((currency, table.rate(currency, Margin::NONE)?.to_string()));
        Currency::ALL.into_iter().filter_map(rate).collect()
    }

    #[test]
    fn a_file_has_dollars_per_unit_or_units_per_euro() {
        let dollars = "date = 2026-11-25\n[usd_per_unit]\nEUR = \"1.0823\"\nAED = \"0.2723\"\n";
        let expected = [
            (Currency::EUR, "1.0823".to_owned()),
            (Currency::AED, "0.2723".into()),
        ];
        assert_eq!(rates(dollars), expected);
        let euros = "date = 2026-11-25\n[units_per_euro]\nUSD = \"1.0823\"\nGBP = \"0.83245\"\n";
        let expected = [
            (Currency::EUR, "1.0823".to_owned()),
            (Currency::GBP, "1.3001381464".into()),
        ];
        assert_eq!(rates(euros), expected);
    }

    #[test]
    fn a_date_is_its_beginning_and_a_time_is_taken_as_it_is() {
        for (date, at) in [
            ("2026-11-25", "2026-11-25T00:00:00.000Z"),
            ("\"2026-11-25\"", "2026-11-25T00:00:00.000Z"),
            ("2026-11-25T18:00:00+01:00", "2026-11-25T17:00:00.000Z"),
            ("2026-11-25T18:00:00Z", "2026-11-25T18:00:00.000Z"),
        ] {
            let table = read(&format!("date = {date}\n[usd_per_unit]\nEUR = \"1\"\n")).unwrap();
            assert_eq!(table.reference().date.rfc3339(), at);
        }
    }

    #[test]
    fn everything_that_is_wrong_is_told_with_its_line() {
        let good = "[usd_per_unit]\nEUR = \"1.08\"\n";
        for (text, line, why) in [
            (good.to_owned(), None, "missing field `date`"),
            (
                format!("date = 2026-11-26\n{good}"),
                Some(1),
                "ahead of this machine's clock",
            ),
            (
                format!("date = 2026-11-25T18:00:01Z\n{good}"),
                Some(1),
                "ahead of this machine's clock",
            ),
            (
                format!("date = 2026-11-25T18:00:00\n{good}"),
                Some(1),
                "with its offset",
            ),
            (
                format!("date = \"today\"\n{good}"),
                Some(1),
                "with its offset",
            ),
            (
                format!("date = 2026-11-25\n{good}EUR = \"1.09\"\n"),
                Some(4),
                "duplicate key",
            ),
            (
                format!("date = 2026-11-25\n{good}GPB = \"1.3\"\n"),
                Some(4),
                "is no supported currency",
            ),
            (
                format!("date = 2026-11-25\n{good}USD = \"1\"\n"),
                Some(4),
                "USD is 1",
            ),
            (
                format!("date = 2026-11-25\n{good}GBP = 1.3\n"),
                Some(4),
                "in quotes",
            ),
            (
                format!("date = 2026-11-25\n{good}GBP = \"0\"\n"),
                Some(4),
                "positive decimal",
            ),
            (
                format!("date = 2026-11-25\n{good}GBP = \"-1.3\"\n"),
                Some(4),
                "positive decimal",
            ),
            (
                format!("date = 2026-11-25\n{good}GBP = \"NaN\"\n"),
                Some(4),
                "positive decimal",
            ),
            (
                format!("date = 2026-11-25\n{good}GBP = \"1.30000000001\"\n"),
                Some(4),
                "ten decimals",
            ),
            (
                format!("date = 2026-11-25\n{good}[units_per_euro]\nUSD = \"1.08\"\n"),
                Some(4),
                "in one of them",
            ),
            ("date = 2026-11-25\n".into(), None, "there are no rates"),
            (
                "date = 2026-11-25\n[usd_per_unit]\n".into(),
                Some(2),
                "has no rates",
            ),
            (
                "date = 2026-11-25\n[units_per_euro]\nGBP = \"0.83\"\n".into(),
                Some(2),
                "has no rate of USD",
            ),
            (
                "date = 2026-11-25\n[units_per_euro]\nEUR = \"1\"\n".into(),
                Some(3),
                "EUR is 1",
            ),
            (
                format!("date = 2026-11-25\nbase = \"EUR\"\n{good}"),
                Some(2),
                "base",
            ),
        ] {
            let errors = read(&text).unwrap_err();
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert!(errors[0].1.contains(why), "{text}: {errors:?}");
            assert!(line.is_none() || errors[0].0 == line, "{text}: {errors:?}");
        }
        let all =
            read("date = 2027-01-01\n[usd_per_unit]\nXXX = \"1\"\nGBP = \"x\"\n").unwrap_err();
        assert_eq!(all.len(), 3, "{all:?}");
    }

    #[test]
    fn a_file_that_others_may_write_is_refused_when_serving() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rates.toml");
        std::fs::write(&path, "date = 2026-11-25\n[usd_per_unit]\nEUR = \"1.08\"\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(read_rates(&path, Profile::Serve, NOW).is_err());
        assert!(read_rates(&path, Profile::Dev, NOW).is_ok());
    }

    fn checked(section: &str, file: &str) -> (Vec<ConfigError>, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kassette.toml"), section).unwrap();
        std::fs::write(folder.path().join("rates.toml"), file).unwrap();
        let config = Config::read(folder.path(), Profile::Dev).unwrap();
        config.check_rates(Profile::Dev, NOW)
    }

    #[test]
    fn a_currency_that_no_source_has_is_told() {
        let aed = "date = 2026-11-25\n[usd_per_unit]\nAED = \"0.2723\"\n";
        let warning = |section: &str| {
            let (errors, warning) = checked(section, aed);
            assert!(errors.is_empty(), "{errors:?}");
            warning
        };
        assert_eq!(warning(""), None);
        let told = warning("[rates]\necb = true").unwrap();
        assert!(told.contains("no source has a rate for AED:"), "{told}");
        assert_eq!(warning("[rates]\necb = true\nfile = \"rates.toml\""), None);
        let told = warning("[rates]\nfile = \"rates.toml\"").unwrap();
        assert!(
            told.contains("EUR, GBP, PHP") && !told.contains("AED"),
            "{told}"
        );
        let (errors, warning) = checked("[rates]\nfile = \"rates.toml\"", "date = 1\n");
        assert_eq!((errors.len(), warning), (1, None));
        let (errors, _) = checked("[rates]\nfile = \"none.toml\"", "");
        assert!(errors[0].path.ends_with("none.toml"), "{errors:?}");
    }

    #[test]
    fn an_address_that_the_client_would_refuse_is_a_mistake() {
        let problem = |address: &str, profile| {
            let rates: Rates = toml::from_str(&format!("ecb_url = \"{address}\"")).unwrap();
            rates.problem(profile)
        };
        assert_eq!(Rates::default().problem(Profile::Serve), None);
        assert_eq!(
            problem("https://mirror.example/ecb.xml", Profile::Serve),
            None
        );
        for wrong in [
            "http://mirror.example/",
            "https://10.0.0.1/",
            "mirror",
            "https://mirror.internal/",
        ] {
            let why = problem(wrong, Profile::Serve).unwrap();
            assert!(why.starts_with("rates.ecb_url: "), "{why}");
        }
        let local = "http://127.0.0.1:9/";
        assert!(problem(local, Profile::Serve).is_some());
        assert_eq!(problem(local, Profile::Dev), None);
    }
}
