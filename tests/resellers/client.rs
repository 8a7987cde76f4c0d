//! A reseller's client of Kassette.
//!
//! ```sh
//! KASSETTE_RESELLER_KEY=kr_live_... cargo run --release --example reseller-client BASE_URL METHOD TARGET [BODY]
//! ```
//!
//! TARGET is path and query, such as /api/v1/reseller/payments?merchant_id=1. Prints the status, then the response
//! body on the following lines.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::{Client, Method, Url};
use sha2::{Digest as _, Sha256};

type Failure = Box<dyn Error + Send + Sync>;

// -- sign
/// The headers of one request. Sign again for each try: a nonce is good for one.
fn sign(
    key: &str,
    method: &Method,
    url: &Url,
    body: &[u8],
) -> Result<[(&'static str, String); 4], Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let timestamp = now.as_secs().to_string();
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce)?;
    let nonce = hex::encode(nonce);
    let digest = hex::encode(Sha256::digest(body));
    // As it is sent: an URL may be written in another way than it was given.
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes())?;
    mac.update(format!("{method}\n{target}\n{timestamp}\n{nonce}\n{digest}").as_bytes());
    Ok([
        ("authorization", format!("Bearer {key}")),
        ("x-service-timestamp", timestamp),
        ("x-service-nonce", nonce),
        (
            "x-service-signature",
            hex::encode(mac.finalize().into_bytes()),
        ),
    ])
}
// -- end

const TRIES: u32 = 4;

/// Sends a request and returns status and body of the response. Repeats it after a network error, status 429 or a
/// server error. This is safe, because the body and thus its client_ref stay the same.
pub(crate) async fn call(
    base: &str,
    key: &str,
    method: &str,
    target: &str,
    body: &str,
) -> Result<(u16, String), Failure> {
    let client = Client::builder().timeout(Duration::from_secs(30)).build()?;
    let url: Url = format!("{base}{target}").parse()?;
    let method: Method = method.parse()?;
    let mut failure = Failure::from("no try was made");
    for attempt in 0..TRIES {
        if attempt > 0 {
            tokio::time::sleep(Duration::from_millis(250 << attempt)).await;
        }
        let mut request = client.request(method.clone(), url.clone());
        for (name, value) in sign(key, &method, &url, body.as_bytes())? {
            request = request.header(name, value);
        }
        if !body.is_empty() {
            let json = request.header("content-type", "application/json");
            request = json.body(body.to_owned());
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                failure = error.into();
                continue;
            }
        };
        let status = response.status().as_u16();
        match response.text().await {
            Ok(answer) if status < 500 && status != 429 => return Ok((status, answer)),
            Ok(answer) => failure = format!("the server answered {status}: {answer}").into(),
            Err(error) => failure = error.into(),
        }
    }
    Err(failure)
}

#[tokio::main]
#[allow(dead_code, clippy::print_stdout, clippy::allow_attributes)] // the tests call `call` themselves
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base, method, target, rest @ ..] = &arguments[..] else {
        return Err("say: reseller-client BASE_URL METHOD TARGET [BODY]".into());
    };
    let key = std::env::var("KASSETTE_RESELLER_KEY")?;
    let body = rest.first().map_or("", String::as_str);
    let (status, answer) = call(base, &key, method, target, body).await?;
    println!("{status}\n{answer}");
    Ok(())
}
