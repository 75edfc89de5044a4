//! Decides the phrases simulated answers are made of: voices, sentence frames and the words that fill them.
//!
//! A frame has slots: `{topic}` a word of the request, `{noun}`, `{adjective}`, `{condition}` from the lists below.
//! Lists of frames have a prime length, so that any stride visits all of them. Never about a subject of its own.

/// How a model writes.
pub(super) struct Voice {
    /// Completes "takes up the request …".
    pub(super) manner: &'static str,
    /// The heading over the texts it was given.
    pub(super) sources: &'static str,
    /// The heading over the argument.
    pub(super) body: &'static str,
    /// The line before the list.
    pub(super) list: &'static str,
    /// How the conclusion begins.
    pub(super) conclusion: &'static str,
    /// How it moves through the frames.
    pub(super) stride: usize,
}

pub(super) const VOICES: &[Voice] = &[
    Voice {
        manner: "step by step, and says where it is unsure",
        sources: "What lies before me",
        body: "The argument",
        list: "In practice this means:",
        conclusion: "I hold this view until someone shows me the case that breaks it.",
        stride: 0,
    },
    Voice {
        manner: "from the side of whoever has to live with the outcome",
        sources: "The texts, and what they ask of us",
        body: "Who gains, who pays",
        list: "Three things to do first:",
        conclusion: "The people concerned should not have to guess what was decided.",
        stride: 3,
    },
    Voice {
        manner: "with an eye on cost and on what can be measured",
        sources: "Inputs",
        body: "Assessment",
        list: "Measures, in order of effect:",
        conclusion: "The numbers decide; these are the ones to collect.",
        stride: 5,
    },
    Voice {
        manner: "by asking first what could go wrong",
        sources: "Under examination",
        body: "Where it may fail",
        list: "Safeguards:",
        conclusion: "None of this forbids the attempt; all of it belongs in the plan.",
        stride: 7,
    },
    Voice {
        manner: "in the long view, since much of it has been tried before",
        sources: "Earlier voices",
        body: "Considerations",
        list: "What experience recommends:",
        conclusion: "Slow is smooth here, and smooth is fast.",
        stride: 9,
    },
];

/// The sentences for a kind of task.
pub(super) struct Frames {
    /// Of the argument.
    pub(super) sentences: &'static [&'static str],
    /// On a text that was quoted.
    pub(super) remarks: &'static [&'static str],
}

impl Frames {
    pub(super) fn of(task: &str, has_sources: bool) -> &'static Self {
        let critical = ["antithesis", "critique", "review", "assessment", "register"];
        match has_sources {
            true if critical.iter().any(|word| task.contains(word)) => &CRITICAL,
            true => &UNITING,
            false => &PROPOSING,
        }
    }
}

static PROPOSING: Frames = Frames {
    sentences: &[
        "The heart of the matter is {topic}, because it sets the {noun} for {topic}.",
        "A {adjective} answer begins with {topic} and leaves {topic} for later.",
        "Nobody disputes that {topic} matters; the open point is the {noun} it demands.",
        "It pays to settle {topic} {condition}, since every later choice leans on that {noun}.",
        "Where {topic} and {topic} pull apart, the more {adjective} of the two should yield.",
        "The {noun} behind {topic} is {adjective}, and that is an argument in its favour.",
        "One objection deserves an answer: that {topic} hides a {adjective} {noun}.",
        "Seen from {topic}, the {noun} looks {adjective}; seen from {topic}, less so.",
        "We know enough about {topic} to act {condition}, and too little to act everywhere.",
        "If only one {noun} could be kept, it should be the one that protects {topic}.",
        "The {adjective} course is to try {topic} {condition} and to write down what happens.",
    ],
    remarks: &["It frames {topic}.", "Its {noun} is {adjective}.", "It bears on {topic} {condition}."],
};

static CRITICAL: Frames = Frames {
    sentences: &[
        "The claim about {topic} rests on a {noun} that is nowhere shown.",
        "It treats {topic} as {adjective}, which holds only {condition}.",
        "What it gets right about {topic} is the {noun}; what it misses is {topic}.",
        "A reader who doubts {topic} finds no {noun} here to change their mind.",
        "The step from {topic} to {topic} is {adjective} and needs a {noun} of its own.",
        "Suppose {topic} fails {condition}: the text does not say who notices.",
        "Its strongest passage is the {noun} for {topic}, and it should be kept whatever else changes.",
        "The {noun} is counted twice, once under {topic} and once under {topic}.",
        "There is a {adjective} alternative in which {topic} comes second, and it is not considered.",
        "The cost of {topic} is called {adjective} without a figure or a {noun}.",
        "Were {topic} removed, most of the {noun} would still stand, which is telling.",
    ],
    remarks: &[
        "The {noun} this implies for {topic} is {adjective} at best.",
        "As a beginning it is {adjective}, but {topic} is taken for granted.",
        "This promises a {noun} on {topic} that the rest does not deliver.",
        "Fair as to {topic}; silent on the {noun}.",
        "I would defend this much {condition}, and no more.",
    ],
};

static UNITING: Frames = Frames {
    sentences: &[
        "Both sides agree on {topic}; what divides them is the {noun}.",
        "The objection to {topic} stands {condition}, and falls elsewhere.",
        "Keeping the {noun} and giving up the {adjective} claim about {topic} satisfies each of them.",
        "On {topic} the later text is the stronger one, since it names its {noun}.",
        "The quarrel over {topic} turns out to be about {topic} and can be settled there.",
        "What remains open is whether {topic} is {adjective} {condition}.",
        "Two arguments for {topic} say the same in different words; one is enough.",
        "The {noun} proposed for {topic} survives the criticism in a more {adjective} form.",
        "Read together, they make {topic} the condition and {topic} the consequence.",
        "Here a compromise would be worse than a choice, and the choice is {topic}.",
        "The {adjective} part of the proposal is kept; its {noun} is replaced.",
    ],
    remarks: &[
        "Kept: its point on {topic}.",
        "Its {noun} is taken over {condition}.",
        "Used for {topic}, where it is the more {adjective} account.",
        "Its view of {topic} yields to the {noun} of the others.",
        "Accepted in substance, with a {adjective} reservation about {topic}.",
    ],
};

pub(super) const NOUNS: &[&str] = &[
    "burden of proof",
    "timetable",
    "trade-off",
    "measure of success",
    "order of steps",
    "margin for error",
    "budget",
    "first test",
    "responsibility",
    "fallback",
    "argument",
    "limit",
    "assumption",
    "incentive",
    "dependency",
    "precedent",
    "exit",
];

pub(super) const ADJECTIVES: &[&str] = &[
    "modest",
    "reversible",
    "costly",
    "plausible",
    "narrow",
    "well-founded",
    "hasty",
    "robust",
    "fragile",
    "generous",
    "untested",
    "sober",
    "familiar",
    "ambitious",
    "partial",
    "durable",
    "local",
];

pub(super) const CONDITIONS: &[&str] = &[
    "in a first small trial",
    "before anything is signed",
    "while demand is low",
    "once the figures are in",
    "as long as it can be undone",
    "under ordinary conditions",
    "when resources are short",
    "within a single quarter",
    "for those who asked for it",
    "without new rules",
    "at the busiest hour",
    "after an independent check",
    "where the risk is borne by volunteers",
];

pub(super) const VERBS: &[&str] = &[
    "Test",
    "Measure",
    "Limit",
    "Publish what is known about",
    "Assign an owner to",
    "Budget for",
    "Compare two ways of",
    "Set a date to review",
    "Ask those affected about",
    "Document",
    "Separate",
    "Rehearse the failure of",
    "Start with",
];

/// Topics for a request that has too few words of its own.
pub(super) const SPARE: [&str; 5] = ["the demand", "the staffing", "the alternative", "the timing", "the question"];

/// Words that carry no request.
pub(super) const COMMON: &[&str] = &[
    "about", "after", "also", "another", "answer", "because", "been", "before", "being", "between", "both", "could",
    "does", "done", "each", "from", "have", "having", "help", "here", "into", "just", "know", "like", "make", "many",
    "more", "most", "much", "must", "need", "only", "other", "over", "please", "shall", "should", "some", "such",
    "than", "that", "their", "them", "then", "there", "these", "they", "this", "those", "through", "under", "very",
    "want", "well", "were", "what", "when", "where", "whether", "which", "while", "will", "with", "would", "write",
    "your",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_of_frames_has_a_prime_length() {
        for frames in [&PROPOSING, &CRITICAL, &UNITING] {
            for list in [frames.sentences, frames.remarks] {
                assert!((2..list.len()).all(|n| list.len() % n != 0));
            }
        }
    }
}
