//! A merchant's appearance on the pages for its payers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::Digest;
use crate::order::Email;
use crate::site::ReturnUrl;

/// An operator's settings for a merchant's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brand {
    /// Background of name and amount. `None`: the default.
    pub colour: Option<Colour>,
    /// Shown next to the name, instead of its first letter.
    pub logo: Option<Logo>,
    /// Whether each method's row names the provider that would be used first. Other pages always name the provider
    /// to which a payer is sent.
    pub shows_provider: bool,
    /// Address for payers' questions about their order. `None`: pages name none.
    pub support: Option<Support>,
}

/// A merchant's address for payers' questions: an e-mail address, or an https page on a named host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Support(String);

/// The text is not a support address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("must be an e-mail address or an https URL of a named host, such as \"help@shop.example\"")]
pub struct NoSupport;

impl Support {
    /// The target of a link: the page's URL, or a `mailto:` URL.
    pub fn href(&self) -> String {
        match Email::parse(&self.0) {
            // The other characters of an address have no special meaning in a URL's path.
            Ok(_) => format!(
                "mailto:{}",
                self.0
                    .replace('%', "%25")
                    .replace('?', "%3F")
                    .replace('#', "%23")
            ),
            Err(_) => self.0.clone(),
        }
    }
}

impl FromStr for Support {
    type Err = NoSupport;

    fn from_str(text: &str) -> Result<Self, NoSupport> {
        let is_one = Email::parse(text).is_ok() || ReturnUrl::parse(text, false).is_ok();
        is_one.then(|| Self(text.to_owned())).ok_or(NoSupport)
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.strip_prefix("https://").unwrap_or(&self.0))
    }
}

/// A color of red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Colour([u8; 3]);

/// The text is not a color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("must be a colour such as \"#12453a\"")]
pub struct NoColour;

impl Colour {
    const BLACK: Self = Self([0; 3]);
    const WHITE: Self = Self([255; 3]);

    /// Black or white, whichever is more readable on it. The better one always has a contrast of at least 4.5
    /// (WCAG 2.2, 1.4.3), so that every color is acceptable.
    pub fn text(self) -> Self {
        if self.contrast(Self::WHITE) >= self.contrast(Self::BLACK) {
            Self::WHITE
        } else {
            Self::BLACK
        }
    }

    /// The contrast of two colors, 1 to 21 (WCAG 2.2, "contrast ratio").
    fn contrast(self, other: Self) -> f64 {
        let (a, b) = (self.luminance(), other.luminance());
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// From 0, black, to 1, white (WCAG 2.2, "relative luminance").
    fn luminance(self) -> f64 {
        let linear = |part: u8| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        };
        let [red, green, blue] = self.0.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }
}

impl FromStr for Colour {
    type Err = NoColour;

    /// Parses `#` and six hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, NoColour> {
        let mut parts = [0; 3];
        let digits = text.strip_prefix('#').ok_or(NoColour)?;
        hex::decode_to_slice(digits, &mut parts).map_err(|_| NoColour)?;
        Ok(Self(parts))
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", hex::encode(self.0))
    }
}

/// A logo: a PNG file that the host wrote from the pixels of the uploaded one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Logo(Arc<[u8]>);

/// The file is too large for a logo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "must be at most {} bytes as the gateway writes it: use a smaller picture, or fewer colours",
    Logo::MOST
)]
pub struct TooLarge;

impl Logo {
    /// Maximum size in bytes: a logo is part of its merchant's record, which every payment reads.
    pub const MOST: usize = 8192;
    /// Maximum width and height, in pixels.
    pub const SIDE: u32 = 320;

    pub fn png(&self) -> &[u8] {
        &self.0
    }

    /// The file's digest, which distinguishes it from others.
    pub fn digest(&self) -> Digest {
        Digest::hash(&self.0)
    }
}

impl TryFrom<Vec<u8>> for Logo {
    type Error = TooLarge;

    /// Accepts a file that the host wrote, of at most [`Self::MOST`] bytes.
    fn try_from(png: Vec<u8>) -> Result<Self, TooLarge> {
        if png.len() > Self::MOST {
            return Err(TooLarge);
        }
        Ok(Self(png.into()))
    }
}

impl From<Logo> for Vec<u8> {
    fn from(logo: Logo) -> Self {
        logo.0.to_vec()
    }
}

impl fmt::Debug for Logo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Logo({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_is_six_hexadecimal_digits() {
        let colour: Colour = "#12453A".parse().unwrap();
        assert_eq!(colour.to_string(), "#12453a");
        for wrong in ["12453a", "#12453", "#12453a0", "#12453g", "", "#", "red"] {
            assert_eq!(wrong.parse::<Colour>(), Err(NoColour), "{wrong}");
        }
    }

    #[test]
    fn text_is_read_on_every_colour() {
        for red in (0..=255).step_by(5) {
            for green in (0..=255).step_by(5) {
                for blue in (0..=255).step_by(5) {
                    let colour = Colour([red, green, blue]);
                    let contrast = colour.contrast(colour.text());
                    assert!(contrast >= 4.5, "{colour}: {contrast}");
                }
            }
        }
        assert_eq!(Colour::WHITE.text(), Colour::BLACK);
        let ours: Colour = "#12453a".parse().unwrap();
        assert_eq!(ours.text(), Colour::WHITE);
    }

    #[test]
    fn a_logo_is_bounded() {
        assert!(Logo::try_from(vec![0; Logo::MOST]).is_ok());
        assert_eq!(Logo::try_from(vec![0; Logo::MOST + 1]), Err(TooLarge));
    }
}
