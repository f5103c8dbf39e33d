package session

import (
	"encoding/json"
	"slices"
)

// Clone is a deep copy.
func (s *TaskState) Clone() *TaskState {
	if s == nil {
		return nil
	}
	c, err := s.copied()
	if err != nil {
		panic("session: the state of a task is no JSON: " + err.Error()) // it was read from one
	}
	return &c
}

func (s *TaskState) copied() (TaskState, error) {
	raw, err := encode(s)
	if err != nil {
		return TaskState{}, invalid("task", "%v", err)
	}
	type plain TaskState // of the present form
	var c plain
	if err := json.Unmarshal(raw, &c); err != nil {
		return TaskState{}, decodeProblem("task", err)
	}
	return TaskState(c).normal(), nil
}

// kept is a deep copy as a session keeps it.
func (s TaskState) kept() (TaskState, error) {
	c, err := s.copied()
	if err == nil {
		err = c.check()
	}
	return c, err
}

// check refuses what no fold would lead to.
func (s *TaskState) check() error {
	return s.Plan.check()
}

// check refuses steps that cannot be told apart.
func (p *Plan) check() error {
	if p == nil {
		return nil
	}
	seen := map[string]bool{}
	for _, step := range p.Steps {
		if step.ID == "" || seen[step.ID] {
			return invalid("plan", "step %s has no id of its own", quoted(step.ID))
		}
		seen[step.ID] = true
	}
	return nil
}

// The most entries that collections of a task's state have: the oldest go.
const (
	maxToolMemory   = 50
	maxToolSummary  = 2000
	maxWebEvidence  = 100
	maxStepOutcomes = 200
	maxEvidence     = 200
	maxFilesRead    = 500
	maxCreated      = 50
)

// normal has no nil lists, and collections within their caps. What it is made
// of may be shared with other states and stays as it is.
func (s TaskState) normal() TaskState {
	s.Steps.Outcomes = withEach(capped(s.Steps.Outcomes, maxStepOutcomes), StepOutcome.normal)
	s.Tools.Results = withEach(capped(s.Tools.Results, maxToolMemory), ToolMemory.normal)
	s.Tools.Pages = capped(s.Tools.Pages, maxWebEvidence)
	s.Steps.Evidence = capped(s.Steps.Evidence, maxEvidence)
	s.Files.Read = latest(s.Files.Read, maxFilesRead)
	s.Files.Reads = latest(s.Files.Reads, maxFilesRead)
	s.Files.Listings = latest(s.Files.Listings, maxFilesRead)
	s.Files.Created = capped(s.Files.Created, maxCreated)
	s.Queues.FollowUps, s.Queues.Feedback = listOf(s.Queues.FollowUps), listOf(s.Queues.Feedback)
	s.Checklist.Items = listOf(s.Checklist.Items)
	if s.Plan != nil && s.Plan.Steps == nil {
		s.Plan = &Plan{Description: s.Plan.Description, Steps: []PlanStep{}}
	}
	return s
}

func (o StepOutcome) normal() (StepOutcome, bool) {
	if o.Files != nil {
		return o, false
	}
	o.Files = []string{}
	return o, true
}

func (m ToolMemory) normal() (ToolMemory, bool) {
	short := firstRunes(m.Summary, maxToolSummary)
	if short == m.Summary {
		return m, false
	}
	m.Summary = short
	return m, true
}

// withEach is the list itself, or a copy where fn changes an entry.
func withEach[T any](list []T, fn func(T) (T, bool)) []T {
	mine := false
	for i := range list {
		e, changed := fn(list[i])
		if !changed {
			continue
		}
		if !mine {
			list, mine = slices.Clone(list), true
		}
		list[i] = e
	}
	return list
}

func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// capped keeps the newest.
func capped[T any](list []T, most int) []T {
	return listOf(list[max(0, len(list)-most):])
}

func firstRunes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	runes := []rune(text)
	return string(runes[:min(len(runes), n)])
}
