package memory

// Forgetting asks for everything to be removed that is remembered for an owner.
type Forgetting struct {
	Scope       Scope  `json:"scope" doc:"user, agent or space"`
	Owner       string `json:"owner" doc:"The user's id, the agent's or the space's name"`
	Transcripts bool   `json:"transcripts,omitempty" doc:"Of a user: what was said so far in their sessions is not found any more either. It stays readable"`
	DryRun      bool   `json:"dryRun,omitempty" doc:"Only count"`
}

// Forgotten counts what was removed, or would be.
type Forgotten struct {
	Entries  int `json:"entries"`
	Sessions int `json:"sessions"` // whose transcripts are not found any more
}
