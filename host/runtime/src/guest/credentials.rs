//! Writes secrets into a request, only in the places that the module has named.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kassette_domain::secret::Secret;
use kassette_http::{HeaderMap, HeaderName, HeaderValue, HostPattern};
use url::Url;
use zeroize::Zeroizing;

use crate::access::AccountAccess;
use crate::v0_2::bindings::provider::kassette::plugin::http::{Credential, SecretField};

/// Maximum number of credentials of a request. Providers need one or two.
const MAX_CREDENTIALS: usize = 8;
/// Media type of a form-encoded body.
const FORM: &str = "application/x-www-form-urlencoded";

/// Writes credentials into headers and body. Returns the hosts that all used secrets may be sent to, for a token
/// in the response.
///
/// # Errors Reason why the request is not sent.
pub(crate) fn write(
    credentials: &[Credential],
    url: &Url,
    access: &AccountAccess,
    headers: &mut HeaderMap,
    body: &mut Vec<u8>,
) -> Result<Vec<HostPattern>, &'static str> {
    if credentials.len() > MAX_CREDENTIALS {
        return Err("too many credentials");
    }
    let mut common: Option<Vec<HostPattern>> = None;
    let mut value = |name: &str| {
        let (secret, hosts) = find(access, name)?;
        if !hosts.iter().any(|host| host.matches(url)) {
            return Err("a secret may not be sent to this host");
        }
        match &mut common {
            None => common = Some(hosts),
            Some(common) => common.retain(|host| hosts.contains(host)),
        }
        Ok(secret)
    };
    for credential in credentials {
        match credential {
            Credential::Bearer(name) => {
                let text = Zeroizing::new(format!("Bearer {}", value(name)?.expose()));
                add(headers, "authorization", &text)?;
            }
            Credential::Basic(basic) => {
                let user = value(&basic.user)?;
                let password = basic.password.as_deref().map(&mut value).transpose()?;
                let password = password.as_ref().map_or("", Secret::expose);
                let pair = Zeroizing::new(format!("{}:{password}", user.expose()));
                let text = Zeroizing::new(format!("Basic {}", STANDARD.encode(&*pair)));
                add(headers, "authorization", &text)?;
            }
            Credential::Header(header) => {
                let secret = value(&header.secret)?;
                let text = Zeroizing::new(format!("{}{}", header.prefix, secret.expose()));
                add(headers, &header.name, &text)?;
            }
            Credential::Field(field) => append(field, &value(&field.secret)?, headers, body)?,
        }
    }
    Ok(common.unwrap_or_default())
}

/// Returns the current value of a secret or an unexpired token, with its hosts.
fn find(access: &AccountAccess, name: &str) -> Result<(Secret, Vec<HostPattern>), &'static str> {
    if let Some(entry) = access.secrets.iter().find(|entry| entry.name == name) {
        let secret = entry
            .values
            .first()
            .filter(|value| !value.expose().is_empty());
        return Ok((
            secret.ok_or("a secret is missing")?.clone(),
            entry.hosts.clone(),
        ));
    }
    let token = access.tokens.get(name, access.account.now);
    let token = token.ok_or("a secret is missing, or a token has expired")?;
    Ok((token.value, token.hosts))
}

/// Adds a header with a secret. Fails if the header already exists.
fn add(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), &'static str> {
    let name = HeaderName::try_from(name).map_err(|_| "a header's name is malformed")?;
    let mut value = HeaderValue::from_str(value).map_err(|_| "a secret does not fit a header")?;
    value.set_sensitive(true);
    if headers.insert(name, value).is_some() {
        return Err("a header is given twice");
    }
    Ok(())
}

fn append(
    field: &SecretField,
    secret: &Secret,
    headers: &HeaderMap,
    body: &mut Vec<u8>,
) -> Result<(), &'static str> {
    let media_type = headers
        .get("content-type")
        .and_then(|value| value.to_str().ok());
    let media_type = media_type
        .and_then(|value| value.split(';').next())
        .unwrap_or_default();
    if !media_type.trim().eq_ignore_ascii_case(FORM) {
        return Err("a field needs a form-encoded body");
    }
    if !body.is_empty() {
        body.push(b'&');
    }
    let mut pair = url::form_urlencoded::Serializer::new(String::new());
    body.extend_from_slice(
        pair.append_pair(&field.name, secret.expose())
            .finish()
            .as_bytes(),
    );
    Ok(())
}
