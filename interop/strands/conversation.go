package strands

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
)

// Conversation is one agent's folder: what it said and heard in one lane.
type Conversation struct {
	Place    Place
	Session  AgentSession
	Agent    Agent
	Messages []Message // by number
}

// SaveConversation writes the files of one agent's folder that differ from the
// conversation. Messages that the conversation does not have stay, so that a
// longer one can be saved by its new messages alone. The agents are those of the
// spec.
func (d Dir) SaveConversation(id string, c Conversation, agents []string) error {
	return d.saveConversations(id, []Conversation{c}, agents)
}

// saveConversations writes the messages of all, and then the agents, which count
// messages that must be there.
func (d Dir) saveConversations(id string, all []Conversation, agents []string) error {
	var messages, counts batch
	for _, c := range all {
		if err := c.save(filepath.Join(d.AgentsDir(), FolderName(id, c.Place, agents)), &messages, &counts); err != nil {
			return fmt.Errorf("save agent %s of session %s: %w", c.Place.Agent, id, err)
		}
	}
	err := messages.commit()
	if err == nil {
		err = counts.commit()
	}
	if err != nil {
		return fmt.Errorf("save agents of session %s: %w", id, err)
	}
	return nil
}

// save adds the files of a folder to the two batches in which they are written.
func (c Conversation) save(folder string, first, last *batch) error {
	agent := filepath.Join(folder, agentsDir, defaultAgent)
	messages := filepath.Join(agent, messagesDir)
	for _, dir := range []string{filepath.Join(folder, multiAgentsDir), messages} {
		if err := first.makeDir(dir); err != nil {
			return err
		}
	}
	write := func(to *batch, path string, value any) error {
		data, err := encodeUTF8(value)
		if err != nil {
			return err
		}
		return to.update(path, data)
	}
	if err := write(first, filepath.Join(folder, sessionFile), c.Session); err != nil {
		return err
	}
	for _, m := range c.Messages {
		if err := write(first, filepath.Join(messages, messageFile(m.Number)), m); err != nil {
			return err
		}
	}
	return write(last, filepath.Join(agent, agentFile), c.Agent)
}

func messageFile(n int) string { return messagePrefix + strconv.Itoa(n) + ".json" }

// Conversations reads the folders of all agents, in the layout that is written
// and in the one that is documented, sorted by agent and lane. A folder without
// an agent in it is passed over. The agents are those of the spec.
func (d Dir) Conversations(id string, agents []string) ([]Conversation, error) {
	entries, err := os.ReadDir(d.AgentsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read agents of session %s: %w", id, err)
	}
	var found []Conversation
	from := map[Place]string{}
	for _, entry := range entries {
		if !entry.IsDir() || d.superseded(id, entry.Name(), agents) {
			continue
		}
		folder := filepath.Join(d.AgentsDir(), entry.Name())
		c, ok, err := readConversation(id, folder)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		c.Place = ParseFolder(id, entry.Name(), agents)
		if other, twice := from[c.Place]; twice {
			return nil, &session.CorruptError{ID: id, Path: folder, Reason: "is the same agent's as " + other}
		}
		from[c.Place] = entry.Name()
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b Conversation) int {
		if by := strings.Compare(a.Place.Agent, b.Place.Agent); by != 0 {
			return by
		}
		return strings.Compare(a.Place.Lane, b.Place.Lane)
	})
	return found, nil
}

// superseded reports a folder whose agent has another in the other layout: the
// documented one once all of it was written anew, until then the new one.
func (d Dir) superseded(id, folder string, agents []string) bool {
	has := func(parts ...string) bool {
		_, err := os.Stat(filepath.Join(append([]string{d.AgentsDir()}, parts...)...))
		return err == nil
	}
	place := ParseFolder(id, folder, agents)
	documented, written := encodeName(place.Agent), FolderName(id, place, agents)
	if place.Lane != "" || !has(documented, agentFile) {
		return false
	}
	whole := has(written, agentsDir, defaultAgent, agentFile)
	return folder == documented && whole || folder == written && !whole
}

// readConversation reads one folder, if it has an agent in it.
func readConversation(id, folder string) (Conversation, bool, error) {
	var c Conversation
	agent, err := agentFolder(id, folder)
	if err != nil || agent == "" {
		return c, false, err
	}
	known, err := readFile(id, filepath.Join(agent, agentFile), &c.Agent)
	if err != nil {
		return c, false, err
	}
	if agent != folder {
		if _, err := readFile(id, filepath.Join(folder, sessionFile), &c.Session); err != nil {
			return c, false, err
		}
	}
	c.Messages, err = readMessages(id, filepath.Join(agent, messagesDir))
	if err != nil {
		return c, false, err
	}
	if !known && len(c.Messages) > 0 {
		return c, false, &session.CorruptError{ID: id, Path: filepath.Join(agent, agentFile), Reason: "is missing, but there are messages"}
	}
	return c, known, nil
}

// agentFolder returns where agent.json and the messages lie: in the folder itself as
// documented, or below it as written; "" where there is neither.
func agentFolder(id, folder string) (string, error) {
	if _, err := os.Stat(filepath.Join(folder, agentFile)); err == nil {
		return folder, nil
	}
	below := filepath.Join(folder, agentsDir)
	entries, err := os.ReadDir(below)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read agents of session %s: %w", id, err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && strings.HasPrefix(entry.Name(), agentPrefix) {
			names = append(names, entry.Name())
		}
	}
	switch {
	case len(names) == 0:
		return "", nil
	case len(names) > 1:
		return "", &session.CorruptError{ID: id, Path: below, Reason: "holds several agents: " + strings.Join(names, ", ")}
	}
	return filepath.Join(below, names[0]), nil
}

func readMessages(id, dir string) ([]Message, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read messages of session %s: %w", id, err)
	}
	var messages []Message
	for _, entry := range entries {
		number, ok := strings.CutPrefix(entry.Name(), messagePrefix)
		number, isJSON := strings.CutSuffix(number, ".json")
		n, err := strconv.Atoi(number)
		if !ok || !isJSON || err != nil || n < 0 {
			continue
		}
		var m Message
		if _, err := readFile(id, filepath.Join(dir, entry.Name()), &m); err != nil {
			return nil, err
		}
		m.Number = n // the SDK goes by the name too
		messages = append(messages, m)
	}
	slices.SortStableFunc(messages, func(a, b Message) int { return a.Number - b.Number })
	for i := 1; i < len(messages); i++ {
		if n := messages[i].Number; n == messages[i-1].Number {
			return nil, &session.CorruptError{ID: id, Path: dir, Reason: fmt.Sprintf("has two messages of number %d", n)}
		}
	}
	return messages, nil
}

// readFile reads one JSON object; a missing file is reported, not an error.
func readFile(id, path string, into any) (bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read session %s: %w", id, err)
	}
	if err := decode(data, into); err != nil {
		return false, corruptError(id, path, err)
	}
	return true, nil
}
