//! A request's parameters, which are removed one by one. Those that remain at the end are unknown to Stripe.
use std::collections::BTreeMap;

use axum::http::HeaderMap;

use crate::{http, stripe::problem::Problem};

/// The merchant's metadata of an object.
pub(crate) type Metadata = BTreeMap<String, String>;

/// Parameters by their bracketed names.
pub(crate) struct Params(BTreeMap<String, String>);

impl Params {
    /// Parses a form.
    ///
    /// # Errors
    /// If it is not a form, or if a parameter is duplicated.
    pub(crate) fn of_body(headers: &HeaderMap, body: &[u8]) -> Result<Self, Problem> {
        if body.is_empty() {
            return Ok(Self(BTreeMap::new()));
        }
        Self::parse(http::form_body(headers, body).map_err(Problem::invalid)?)
    }

    /// Parses a query.
    ///
    /// # Errors
    /// If a parameter is duplicated.
    pub(crate) fn of_query(query: Option<&str>) -> Result<Self, Problem> {
        let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self::parse(pairs.into_owned().collect())
    }

    fn parse(pairs: Vec<(String, String)>) -> Result<Self, Problem> {
        let mut params = BTreeMap::new();
        for (name, value) in pairs {
            if params.contains_key(&name) {
                return Err(Problem::invalid(format!("{name} stands twice")).param(name));
            }
            if value.is_empty() {
                let message = format!("You passed an empty string for '{name}'.");
                return Err(Problem::invalid(message)
                    .code("parameter_invalid_empty")
                    .param(name));
            }
            params.insert(name, value);
        }
        Ok(Self(params))
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    pub(crate) fn need(&mut self, name: &str) -> Result<String, Problem> {
        self.take(name).ok_or_else(|| Problem::missing(name))
    }

    /// Removes a text of at most `most` characters.
    pub(crate) fn text(&mut self, name: &str, most: usize) -> Result<Option<String>, Problem> {
        let value = self.take(name);
        if value
            .as_ref()
            .is_some_and(|text| text.chars().count() > most)
        {
            let message = format!("Invalid string: must be at most {most} characters");
            return Err(Problem::invalid(message).param(name));
        }
        Ok(value)
    }

    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        let plain = value.bytes().all(|byte| byte.is_ascii_digit());
        match value.parse() {
            Ok(number) if plain => Ok(Some(number)),
            _ => Err(Problem::invalid(format!("Invalid integer: {value}"))
                .code("parameter_invalid_integer")
                .param(name)),
        }
    }

    /// Removes a value that must be one of `choices`.
    pub(crate) fn choice(
        &mut self,
        name: &str,
        choices: &[&str],
    ) -> Result<Option<String>, Problem> {
        let value = self.take(name);
        if let Some(word) = value.as_deref().filter(|word| !choices.contains(word)) {
            let message = format!("Invalid {name}: must be one of {choices:?}, not {word}");
            return Err(Problem::invalid(message).param(name));
        }
        Ok(value)
    }

    /// Removes `name[0]`, `name[1]`, …
    pub(crate) fn list(&mut self, name: &str) -> Vec<String> {
        (0..)
            .map_while(|at: usize| self.take(&format!("{name}[{at}]")))
            .collect()
    }

    /// Removes the objects to be expanded in the answer; each must be among `known`.
    pub(crate) fn expand(&mut self, known: &[&str]) -> Result<Vec<String>, Problem> {
        let wanted = self.list("expand");
        match wanted.iter().find(|path| !known.contains(&path.as_str())) {
            Some(path) => Err(Problem::invalid(format!(
                "This property cannot be expanded ({path})."
            ))
            .param("expand")),
            None => Ok(wanted),
        }
    }

    /// Removes `name[key]` for every key.
    pub(crate) fn map(&mut self, name: &str) -> BTreeMap<String, String> {
        let prefix = format!("{name}[");
        let (inside, rest) = std::mem::take(&mut self.0)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(key, _)| key.starts_with(&prefix));
        self.0 = rest;
        let key = |(key, value): (String, String)| {
            let key = key.strip_prefix(&prefix).unwrap_or(&key);
            (key.trim_end_matches(']').to_owned(), value)
        };
        inside.into_iter().map(key).collect()
    }

    /// Removes `metadata`: at most 50 keys of 40 characters with values of 500.
    ///
    /// # Errors
    /// If there is more.
    pub(crate) fn metadata(&mut self, name: &str) -> Result<Metadata, Problem> {
        let metadata = self.map(name);
        let long = |(key, value): (&String, &String)| {
            key.chars().count() > 40 || value.chars().count() > 500
        };
        if metadata.len() > 50 || metadata.iter().any(long) {
            return Err(Problem::invalid("Metadata is too long.").param(name));
        }
        Ok(metadata)
    }

    /// Removes the size of a page.
    ///
    /// # Errors
    /// If it is not 1 to 100.
    pub(crate) fn limit(&mut self) -> Result<usize, Problem> {
        let limit = usize::try_from(self.whole("limit")?.unwrap_or(10)).ok();
        limit
            .filter(|limit| (1..=100).contains(limit))
            .ok_or_else(|| Problem::invalid("limit: 1 to 100").param("limit"))
    }

    /// Refuses the remaining parameters.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        match self.0.into_keys().next() {
            Some(name) => Err(Problem::unknown_param(&name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &str) -> Params {
        Params::of_query(Some(query)).unwrap()
    }

    #[test]
    fn what_nobody_takes_is_refused() {
        let mut some = params("a=1&b%5B0%5D=x&b%5B1%5D=y&m%5Bk%5D=v&odd=1");
        assert_eq!(some.whole("a").unwrap(), Some(1));
        assert_eq!(some.list("b"), ["x", "y"]);
        assert_eq!(some.map("m").get("k").map(String::as_str), Some("v"));
        assert!(some.finish().is_err());
        assert!(params("").finish().is_ok());
    }

    #[test]
    fn values_of_another_form_are_refused() {
        for query in ["a=1&a=1", "a="] {
            assert!(Params::of_query(Some(query)).is_err(), "{query}");
        }
        for number in ["-1", "%2B1", "1.0", "x"] {
            assert!(
                params(&format!("a={number}")).whole("a").is_err(),
                "{number}"
            );
        }
        assert!(params("a=xyz").text("a", 2).is_err());
        assert!(params("a=xyz").choice("a", &["abc"]).is_err());
    }
}
