//! A merchant's own look on the pages that its payers see.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::Digest;

/// What an operator set for a merchant's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brand {
    /// Behind name and amount; none is ours.
    pub colour: Option<Colour>,
    /// Beside the name, in place of its first letter.
    pub logo: Option<Logo>,
    /// Whether the pages name no provider.
    pub hides_provider: bool,
}

/// A colour of red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Colour([u8; 3]);

/// What a colour must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("must be a colour such as \"#12453a\"")]
pub struct NoColour;

impl Colour {
    const BLACK: Self = Self([0; 3]);
    const WHITE: Self = Self([255; 3]);

    /// Black or white, whichever is read better on it. The better one always has a contrast of 4.5 or more
    /// (WCAG 2.2, 1.4.3), so that no colour has to be refused.
    pub fn text(self) -> Self {
        if self.contrast(Self::WHITE) >= self.contrast(Self::BLACK) {
            Self::WHITE
        } else {
            Self::BLACK
        }
    }

    /// The contrast of two colours, 1 to 21 (WCAG 2.2, "contrast ratio").
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

    /// Reads `#` and six hexadecimal digits.
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

/// A logo: a PNG file that the host wrote itself from the pixels of the one it was given.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Logo(Arc<[u8]>);

/// Why a file is no logo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "must be at most {} bytes as the gateway writes it: use a smaller picture, or fewer colours",
    Logo::MOST
)]
pub struct TooLarge;

impl Logo {
    /// Most bytes: a logo stands in its merchant's record, which every payment reads.
    pub const MOST: usize = 8192;
    /// Most pixels of a side.
    pub const SIDE: u32 = 320;

    pub fn png(&self) -> &[u8] {
        &self.0
    }

    /// The file's digest, by which it is told apart from another one.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }
}

impl TryFrom<Vec<u8>> for Logo {
    type Error = TooLarge;

    /// Takes a file that the host wrote, of at most [`Self::MOST`] bytes.
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
