//! To be written.
/// Takes a secret out of a text that comes in pieces.
#[derive(Debug)]
pub struct Redactor {
    secret: String,
}
impl Redactor {
    /// For this secret.
    pub fn new(secret: &str) -> Self {
        Redactor { secret: secret.to_owned() }
    }
    /// The next piece, as far as it is certain to be free of the secret.
    pub fn push(&mut self, text: &str) -> String {
        text.replace(&self.secret, "***")
    }
    /// What was held back.
    pub fn end(&mut self) -> String {
        String::new()
    }
    /// A whole text without the secret.
    pub fn whole(&self, text: &str) -> String {
        text.replace(&self.secret, "***")
    }
}
