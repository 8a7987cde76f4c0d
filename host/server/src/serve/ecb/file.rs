//! Format of the European Central Bank's daily file.

use std::collections::BTreeMap;

use kassette_domain::money::{Currency, Rate};
use kassette_domain::rates::{NoDollars, RateSource, RateTable, TableRef};
use kassette_domain::time::Time;
use roxmltree::{Document, Node};

/// Reason why a text is not a valid file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotTheFile {
    #[error("it is no XML: {0}")]
    NotXml(String),
    #[error(
        "it has the rates of {0} days, where one is needed: its address may be of another file"
    )]
    Days(usize),
    #[error("its time is no date")]
    Date,
    #[error(
        "it is of {0}, which has not come: this machine's clock is behind, or the file is not the bank's"
    )]
    Ahead(Time),
    #[error("its rate of {0} is no positive decimal")]
    Rate(Currency),
    #[error("it has two rates of {0}")]
    Twice(Currency),
    #[error("it {0}")]
    NoDollars(#[from] NoDollars),
}

/// Parses the file: units of each currency per euro, of exactly one day. Currencies that invoices cannot use are
/// ignored. Any invalid rate rejects the whole file.
pub(super) fn read(text: &str, now: Time) -> Result<RateTable, NotTheFile> {
    // Document type declarations are rejected, so entities cannot expand.
    let document = Document::parse(text).map_err(|error| NotTheFile::NotXml(printable(&error)))?;
    let is_cube = |node: &Node<'_, '_>| node.tag_name().name() == "Cube";
    let dated = |node: &Node<'_, '_>| is_cube(node) && node.has_attribute("time");
    let days: Vec<_> = document.descendants().filter(dated).collect();
    let [day] = days[..] else {
        return Err(NotTheFile::Days(days.len()));
    };
    let date = day.attribute("time").and_then(Time::parse_date);
    let date = date.ok_or(NotTheFile::Date)?;
    if date > now {
        return Err(NotTheFile::Ahead(date));
    }
    let mut units = BTreeMap::new();
    for cube in day.children().filter(is_cube) {
        let Some(currency) = cube.attribute("currency").and_then(Currency::parse) else {
            continue;
        };
        let rate = cube
            .attribute("rate")
            .and_then(|rate| Rate::parse(rate).ok());
        let rate = rate.ok_or(NotTheFile::Rate(currency))?;
        if units.insert(currency, rate).is_some() {
            return Err(NotTheFile::Twice(currency));
        }
    }
    let of = TableRef {
        source: RateSource::Ecb,
        date,
    };
    Ok(RateTable::of_euros(of, &units)?)
}

/// The parser's message, shortened and without control characters, because it is logged and can contain parts of
/// the file.
fn printable(error: &roxmltree::Error) -> String {
    let text = error.to_string();
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_domain::money::Margin;

    /// 2026-11-25T18:00:00Z
    const NOW: Time = Time::from_secs(1_795_629_600);

    /// The format of the bank, with rates of some day.
    const FILE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01" xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">
	<gesmes:subject>Reference rates</gesmes:subject>
	<gesmes:Sender>
		<gesmes:name>European Central Bank</gesmes:name>
	</gesmes:Sender>
	<Cube>
		<Cube time='2026-11-25'>
			<Cube currency='USD' rate='1.0823'/>
			<Cube currency='JPY' rate='162.91'/>
			<Cube currency='GBP' rate='0.83245'/>
			<Cube currency='INR' rate='91.3815'/>
		</Cube>
	</Cube>
</gesmes:Envelope>"#;

    #[test]
    fn the_rates_of_the_day_are_read_and_made_through_the_euro() {
        let table = read(FILE, NOW).unwrap();
        assert_eq!(table.reference().date.rfc3339(), "2026-11-25T00:00:00.000Z");
        let rate = |currency| {
            let rate = table.rate(currency, Margin::NONE);
            rate.map(|rate| rate.to_string())
        };
        assert_eq!(rate(Currency::EUR).as_deref(), Some("1.0823"));
        assert_eq!(rate(Currency::GBP).as_deref(), Some("1.3001381464"));
        assert_eq!(rate(Currency::AED), None);
    }

    #[test]
    fn what_is_not_the_file_is_refused_whole() {
        let changed = |right: &str, wrong: &str| {
            assert!(FILE.contains(right));
            read(&FILE.replace(right, wrong), NOW).unwrap_err()
        };
        assert_eq!(changed("0.83245", "0"), NotTheFile::Rate(Currency::GBP));
        assert_eq!(changed("0.83245", "-1"), NotTheFile::Rate(Currency::GBP));
        assert_eq!(changed("0.83245", "N/A"), NotTheFile::Rate(Currency::GBP));
        assert_eq!(
            changed(" rate='0.83245'", ""),
            NotTheFile::Rate(Currency::GBP)
        );
        assert_eq!(changed("INR", "GBP"), NotTheFile::Twice(Currency::GBP));
        assert_eq!(changed("'USD'", "'XXX'"), NotTheFile::NoDollars(NoDollars));
        assert_eq!(changed("2026-11-25", "25.11.2026"), NotTheFile::Date);
        assert!(matches!(
            changed("2026-11-25", "2026-11-26"),
            NotTheFile::Ahead(_)
        ));
        assert_eq!(changed(" time='2026-11-25'", ""), NotTheFile::Days(0));
        let two = changed("\t</Cube>\n</", "<Cube time='2026-11-24'/></Cube></");
        assert_eq!(two, NotTheFile::Days(2));
        let bomb = "<!DOCTYPE a [<!ENTITY b \"bb\"><!ENTITY c \"&b;&b;\">]><a>&c;</a>";
        for text in [
            "",
            "{}",
            "<html><body>Sorry</body></html>",
            bomb,
            &FILE[..FILE.len() / 2],
        ] {
            assert!(read(text, NOW).is_err(), "{text}");
        }
    }
}
