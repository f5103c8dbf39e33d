package foreign

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
)

// Options adjust an import. The zero value keeps the file's id and agent id and
// uses the default tenant and the current time.
type Options struct {
	NewID        string        // import under another id
	AgentID      string        // and as another agent
	Tenant       string        // owner of the session
	Now          time.Time     // time of the import
	NewMessageID func() string // for messages without a usable id; nil numbers them
}

// Check refuses options that name no session and no tenant.
func (o Options) Check() error {
	if o.NewID != "" {
		if err := session.CheckID(o.NewID); err != nil {
			return err
		}
	}
	if o.Tenant != "" {
		return session.CheckTenant(o.Tenant)
	}
	return nil
}

// Conversation is what another program has kept of a chat. Messages may have
// results anywhere behind their calls.
type Conversation struct {
	Format       string // of the program, for the import change
	ID           string // of the session there
	Name         string
	Agent        string // the name of the agent
	Model        string // as PROVIDER/MODEL; empty where it is not known
	SystemPrompt string
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Messages     []session.Message
	From         int                        // index of the first message that a model is shown; those before are history
	Variables    map[string]json.RawMessage // of the session's memory
	Report       Report
}

// Session makes a session of it at version 0, ready for a store's Create. A call
// without a result gets one that says so. What is no valid conversation even so
// is a session.CorruptError.
func (c Conversation) Session(o Options) (session.Session, Report, error) {
	if err := o.Check(); err != nil {
		return session.Session{}, Report{}, err
	}
	now := cmp.Or(o.Now, time.Now())
	messages, from := c.arrange()
	if len(messages) == 0 {
		return session.Session{}, Report{}, &session.CorruptError{ID: c.ID, Path: "messages", Reason: "there is no message of a user"}
	}
	if c.Model != "" {
		c.Report.Models = append(c.Report.Models, c.Model)
	}
	for _, m := range messages {
		for _, call := range m.ToolCalls {
			c.Report.Tools = append(c.Report.Tools, call.Name)
		}
	}
	report := c.Report.Tidy()
	id := cmp.Or(o.NewID, c.ID)
	if o.NewID == "" && (session.CheckID(id) != nil || MaskText(id) != id) {
		id = derivedID(c.Format, c.ID)
		report.Renamed = append(report.Renamed, Rename{"id", MaskText(c.ID), id})
	}
	identity := session.Identity{
		ID: id, AgentID: cmp.Or(o.AgentID, uuid.NewString()), Name: plainName(c.Name), Tenant: o.Tenant,
		Origin: session.OriginImport, CreatedAt: cmp.Or(c.CreatedAt, messages[0].CreatedAt),
	}
	def := session.Definition{Name: agentName(c.Agent), Model: c.Model, SystemPrompt: c.SystemPrompt}
	s, err := session.New(identity, def, session.Seed{Messages: messages, Variables: c.Variables}, now)
	if err == nil {
		changes := []session.Change{session.SessionImported{Format: c.Format, UpdatedAt: cmp.Or(c.UpdatedAt, messages[len(messages)-1].CreatedAt), Dropped: report.Dropped}}
		if from > 0 {
			changes = append(changes, session.WindowMoved{To: s.Message(from).Seq, Keep: []int64{}, Groups: len(session.Groups(messages[:from]))})
		}
		s, err = s.With(now, changes...)
	}
	if err != nil {
		return session.Session{}, Report{}, corrupt(c.ID, err)
	}
	return s, report, nil
}

// derivedID makes an id of one that a session cannot have: the same for the same,
// so that a file that is imported twice makes no second session.
func derivedID(format, id string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(format+":"+id)).String()
}

// corrupt turns an error of package session into a CorruptError.
func corrupt(id string, err error) error {
	var invalid *session.InvalidError
	if errors.As(err, &invalid) {
		return &session.CorruptError{ID: id, Path: invalid.Field, Reason: invalid.Reason}
	}
	return &session.CorruptError{ID: id, Reason: err.Error()}
}

const orphans = "results without a call"

// arrange returns the messages as a session keeps them: it begins with a user,
// results stand behind their calls, in the order of the calls, and every message
// and every call has an id of its own. From is the index of the first that a
// model is shown.
func (c *Conversation) arrange() (arranged []session.Message, from int) {
	left := map[string]int{} // what is left out, and how often
	results := c.results()
	callIDs := map[string]bool{}
	last, shown := c.CreatedAt, false
	for i, m := range c.Messages {
		if m.CreatedAt.IsZero() {
			m.CreatedAt = last
		}
		last = m.CreatedAt
		if m.ToolResult != nil {
			continue
		}
		m.Content, m.ToolCalls = readable(m.Content, left), named(m.ToolCalls, left)
		switch {
		case m.Role == session.RoleAssistant && len(arranged) == 0:
			left["what the agent said before the first message of a user"]++
			continue
		case len(m.ToolCalls) == 0 && m.Content.Blank():
			continue
		}
		if !shown && i >= c.From {
			shown, from = true, len(arranged)
		}
		at := len(arranged)
		arranged = append(arranged, m)
		for j := range m.ToolCalls {
			call := &arranged[at].ToolCalls[j]
			result := c.resultOf(*call, i, m.CreatedAt, results, left)
			if call.ID == "" || callIDs[call.ID] {
				call.ID = fmt.Sprintf("call-%d-%d", i+1, j+1)
			}
			callIDs[call.ID], result.ToolResult.CallID = true, call.ID
			arranged = append(arranged, result)
		}
	}
	for _, indexes := range results {
		left[orphans] += len(indexes)
	}
	for _, what := range slices.Sorted(maps.Keys(left)) {
		if left[what] > 0 {
			c.Report.Note("left out %s: %d", what, left[what])
		}
	}
	used := map[string]bool{}
	for i := range arranged {
		m := &arranged[i]
		if m.ID == "" || used[m.ID] {
			m.ID = fmt.Sprintf("m%d", i+1)
		}
		used[m.ID] = true
	}
	return arranged, from
}

// readable returns the content without what no model could read.
func readable(content session.Content, left map[string]int) session.Content {
	return slices.DeleteFunc(slices.Clone(content), func(p session.Part) bool {
		_, padded := base64.StdEncoding.DecodeString(p.Data)
		_, bare := base64.RawStdEncoding.DecodeString(p.Data)
		broken := padded != nil && bare != nil
		if broken {
			left["attachments that are not base64"]++
		}
		return broken
	})
}

// named returns the calls that name a tool.
func named(calls []session.ToolCall, left map[string]int) []session.ToolCall {
	return slices.DeleteFunc(slices.Clone(calls), func(call session.ToolCall) bool {
		if call.Name == "" {
			left["calls without the name of a tool"]++
		}
		return call.Name == ""
	})
}

// results returns where the results of each call stand.
func (c *Conversation) results() map[string][]int {
	at := map[string][]int{}
	for i, m := range c.Messages {
		if m.ToolResult != nil {
			at[m.ToolResult.CallID] = append(at[m.ToolResult.CallID], i)
		}
	}
	return at
}

// resultOf takes the first result of a call that stands behind it. Calls are
// asked for in their order, so what stands before this one belongs to none.
func (c *Conversation) resultOf(call session.ToolCall, after int, at time.Time, results map[string][]int, left map[string]int) session.Message {
	indexes := results[call.ID]
	for len(indexes) > 0 && indexes[0] < after {
		indexes = indexes[1:]
		left[orphans]++
	}
	if results[call.ID] = indexes; len(indexes) > 0 {
		results[call.ID] = indexes[1:]
		m := c.Messages[indexes[0]]
		result := *m.ToolResult
		result.ToolName, m.ToolResult, m.CreatedAt = call.Name, &result, cmp.Or(m.CreatedAt, at)
		return m
	}
	c.Report.Note("calls without a result have one that says so")
	result := session.ToolResult{CallID: call.ID, ToolName: call.Name, Content: "the call has no result in the file it was imported from", IsError: true, Synthetic: true}
	return session.Message{Role: session.RoleTool, CreatedAt: at, ToolResult: &result}
}

var notInAgentName = regexp.MustCompile(`[^a-z0-9_-]+`)

// agentName makes a name of an agent of any text.
func agentName(text string) string {
	name := strings.Trim(notInAgentName.ReplaceAllString(strings.ToLower(text), "-"), "-_")
	return cmp.Or(name[:min(len(name), 100)], "imported")
}

// plainName makes a name of a session of any text.
func plainName(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	name := []rune(strings.Join(strings.Fields(text), " "))
	return strings.TrimSpace(string(name[:min(len(name), 100)]))
}

// Arguments returns the arguments of a call as a JSON object. Text that is none
// is kept under the key text.
func Arguments(raw []byte) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil && object != nil {
		return slices.Clone(raw)
	}
	kept, err := json.Marshal(struct {
		Text string `json:"text"`
	}{string(raw)})
	if err != nil {
		return json.RawMessage("{}")
	}
	return kept
}
