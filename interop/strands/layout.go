package strands

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/workflow"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// layout is everything a session directory says of a run.
type layout struct {
	id            string
	state         State
	spec          []byte
	files         []spec.File
	agents        []string // of the spec
	conversations []Conversation
}

// newLayout reads a run as its directory shows it. The session must be whole.
func newLayout(s session.Session) (layout, error) {
	st, err := workflow.Project(s)
	if err != nil {
		return layout{}, err
	}
	run, err := workflow.ReadContents(s)
	if err != nil {
		return layout{}, err
	}
	l := layout{id: s.ID(), spec: run.Snapshot.Spec, files: run.Snapshot.Files, agents: run.Spec.Agents.Names()}
	if st.Metadata.Status == workflow.StatusCancelled { // the other program knows no such status
		text := "cancelled"
		st.Metadata.Status, st.Metadata.Error = workflow.StatusFailed, &text
	}
	if l.state, err = stateOf(st); err != nil {
		return layout{}, err
	}
	ext := Extension{Version: s.Version(), SpecPath: run.Snapshot.Path}
	for _, name := range slices.Sorted(maps.Keys(st.Agents)) {
		ext.Usage.Set(name, st.Agents[name])
	}
	l.state.Holdfast = &ext
	for _, t := range run.Conversations {
		c, err := l.conversation(t, run)
		if err != nil {
			return layout{}, err
		}
		l.conversations = append(l.conversations, c)
	}
	return l, nil
}

// stateOf reads the state of a run, whose JSON is that of the files.
func stateOf(st *workflow.State) (State, error) {
	head, err := session.JSON(st)
	if err != nil {
		return State{}, err
	}
	pattern, err := session.JSON(st.Pattern)
	if err != nil {
		return State{}, err
	}
	return DecodeState(head, pattern)
}

// conversation returns what an agent said, as the files of its folder.
func (l layout) conversation(t workflow.Conversation, run *workflow.Contents) (Conversation, error) {
	messages, err := FromSession(0, t.Messages)
	if err != nil {
		return Conversation{}, fmt.Errorf("agent %s: %w", t.Agent, err)
	}
	place := Place{Agent: t.Agent, Lane: laneName(t.Lane)}
	policy := run.Spec.Context
	compacts := policy != nil && policy.Compaction != nil && policy.Compaction.Enabled
	first, last := messages[0].CreatedAt, messages[len(messages)-1].UpdatedAt
	c := Conversation{
		Place: place, Messages: messages, Agent: NewAgent(compacts, first),
		Session: AgentSession{SessionID: l.id + "_" + place.folder(l.agents), CreatedAt: first, UpdatedAt: last},
	}
	c.Agent.UpdatedAt = last
	if policy != nil && policy.Notes != nil && t.System != "" { // it cannot be made again: the notes have grown
		if err := c.Agent.setSystem(t.System); err != nil {
			return Conversation{}, err
		}
	}
	if t.Removed == 0 || !compacts {
		return c, nil
	}
	removed, err := FromSession(0, t.Messages[:t.Removed])
	if err != nil {
		return Conversation{}, fmt.Errorf("agent %s: %w", t.Agent, err)
	}
	summary := bodyOf([]session.Message{{Role: session.RoleUser, Content: session.Text(t.Summary)}})
	return c, c.Agent.SetRemoved(len(removed), &summary)
}

// The lanes of a run and of a directory are called differently.
const runWorkerLane, dirWorkerLane = "worker/", "worker_"

func laneName(lane string) string {
	switch number, worker := strings.CutPrefix(lane, runWorkerLane); {
	case worker:
		return dirWorkerLane + number
	case lane == workflow.LaneRouter:
		return RouterLane
	}
	return ""
}

func runLane(lane string) string {
	switch number, worker := strings.CutPrefix(lane, dirWorkerLane); {
	case worker:
		return runWorkerLane + number
	case lane == RouterLane:
		return workflow.LaneRouter
	}
	return workflow.LaneMain
}

// write brings a directory to what the layout says. Files that say so already
// are left alone, and so is what the directory has besides. The state comes
// last: it speaks of nothing that is not there.
func (l layout) write(d Dir) error {
	if err := d.make(); err != nil {
		return err
	}
	if len(l.files) > 0 {
		if _, err := d.SaveSpecFiles(l.files); err != nil {
			return err
		}
	}
	if err := d.saveConversations(l.id, l.conversations, l.agents); err != nil {
		return err
	}
	if err := update(d.SnapshotPath(), l.spec); err != nil {
		return err
	}
	return d.Save(l.state, nil)
}

// systemKey is where, under "holdfast", an agent keeps the prompt it was given.
const systemKey = "system"

func (a *Agent) setSystem(text string) error {
	raw, err := session.JSON(map[string]string{systemKey: text})
	if err != nil {
		return err
	}
	a.Extra.Set("holdfast", raw)
	return nil
}

func (a Agent) system() string {
	raw, _ := a.Extra.Get("holdfast")
	var own map[string]json.RawMessage
	var text string
	if json.Unmarshal(raw, &own) != nil || json.Unmarshal(own[systemKey], &text) != nil {
		return ""
	}
	return text
}
