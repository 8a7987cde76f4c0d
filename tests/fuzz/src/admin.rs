//! The admin API with tokens of each operator role.

use std::time::Duration;

use http::header::HOST;
use http::{HeaderValue, Method};

use crate::talk::Words;
use crate::world::ADMIN;
use crate::{rules, talk, world};

/// Last path segments of routes on which only the role admin may change something.
const ADMINS: [&str; 2] = ["/operators", "/merchants"];

pub(crate) fn run(input: &[u8]) {
    if input.len() > crate::LONGEST {
        return;
    }
    world::within(true, |world| {
        let mut words = world.draw();
        // An input may remove an entity that `words` refer to. The next world contains it again.
        for section in talk::split(input) {
            world.pass(Duration::from_millis(100));
            let Some(mut asked) = talk::read(section, &words, &world.credentials, world.now())
            else {
                continue;
            };
            let named = asked.headers.contains_key(HOST);
            if !named {
                asked.headers.insert(HOST, HeaderValue::from_static(ADMIN));
            }
            let before = world.count();
            let answer = world.wait(talk::send(&world.admin, &asked));
            let after = world.count();
            rules::judge(world, input, &asked, &answer, &before, &after);
            let changes = ![Method::GET, Method::HEAD].contains(&asked.method);
            let role = asked.credential.unwrap_or_default();
            if !["viewer", "operator", "admin"].contains(&role) {
                assert!(answer.status >= 400, "without a token: {}", answer.text());
            }
            if changes && (role == "viewer" || role == "operator" && is_admins(&asked.target)) {
                assert!(answer.status >= 400, "{role} did that: {}", answer.text());
            }
            learn(&mut words, &answer);
        }
    });
}

fn is_admins(target: &str) -> bool {
    let path = target.split('?').next().unwrap_or_default();
    ADMINS.iter().any(|end| path.ends_with(end))
}

fn learn(words: &mut Words, answer: &talk::Answer) {
    world::learn(words, answer);
    if let Some(value) = answer.json() {
        for (word, list, field) in [
            ("delivery", "deliveries", "id"),
            ("work", "work", "id"),
            ("payment", "payments", "payment_id"),
        ] {
            if let Some(text) = value[list][0][field].as_str() {
                words.insert(word, text.to_owned());
            }
        }
    }
}
