//! The only user of SPI. One file per noun, typed values in and out; statements are constants beside their one user.

pub(crate) mod definition;
