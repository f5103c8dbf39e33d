package session

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// scanner reads JSON in the very form that writer gives it, with one look at
// each byte. It says nothing about what it does not expect: the strict decoder
// then reads the same text, knows all of JSON, and names what is wrong. So the
// scanner may refuse anything but must accept nothing that the other would not.
type scanner struct {
	text string // valid UTF-8
	at   int
}

// scanRecord is a record in the form that Record.MarshalJSON writes.
func scanRecord(data []byte) (Record, bool) {
	if !utf8.Valid(data) {
		return Record{}, false
	}
	p := &scanner{text: string(data)}
	var r Record
	kind, ok := p.recordHead(&r)
	if !ok || !strings.HasSuffix(p.text, "}") {
		return Record{}, false
	}
	var err error
	if kind == (MessageAdded{}).Kind() {
		var m Message
		if !p.literal(`{"message":`) || !p.message(&m) || p.text[p.at:] != "}}" {
			return Record{}, false
		}
		m, err = m.normalise()
		r.Change = MessageAdded{Message: m}
	} else {
		r.Change, err = decodeChange(kind, data[p.at:len(data)-1])
	}
	return r, err == nil && r.check() == nil
}

// recordHead reads up to the data of a record.
func (p *scanner) recordHead(r *Record) (kind string, ok bool) {
	if !p.literal(`{"seq":`) || !p.number(&r.Seq) || !p.literal(`,"at":`) || !p.time(&r.At) {
		return "", false
	}
	r.At = Instant(r.At)
	if !p.literal(`,"kind":`) || !p.string(&kind) {
		return "", false
	}
	return kind, p.literal(`,"data":`)
}

// scanDocument is a document in the form that Session.document writes. Its
// parts are only told apart here, not checked.
func scanDocument(format string, data []byte) (document, bool) {
	d := document{Format: format, FormatVersion: FormatVersion}
	if !utf8.Valid(data) {
		return d, false
	}
	p := &scanner{text: string(data)}
	part := func(name string, raw *json.RawMessage) bool {
		if !p.literal(`,"` + name + `":`) {
			return false
		}
		begin := p.at
		ok := p.skip()
		*raw = data[begin:p.at]
		return ok
	}
	var spans, ledger json.RawMessage
	if !p.literal(`{"format":"`+format+`","formatVersion":`+strconv.Itoa(FormatVersion)) ||
		!part("header", &d.Header) || !part("definition", &d.Definition) || !part("state", &d.State) {
		return d, false
	}
	if part("spans", &spans) && DecodeStrict("spans", spans, &d.Spans) != nil {
		return d, false
	}
	if part("ledger", &ledger) && DecodeStrict("ledger", ledger, &d.Ledger) != nil {
		return d, false
	}
	return d, p.text[p.at:] == "}"
}

// literal reads exactly this.
func (p *scanner) literal(want string) bool {
	if !strings.HasPrefix(p.text[p.at:], want) {
		return false
	}
	p.at += len(want)
	return true
}

// string reads a string.
func (p *scanner) string(into *string) bool {
	if !p.literal(`"`) {
		return false
	}
	begin, escaped := p.at, false
	for ; p.at < len(p.text); p.at++ {
		p.at += plainLength(p.text[p.at:])
		if p.at == len(p.text) {
			break
		}
		switch c := p.text[p.at]; {
		case c == '"':
			text := p.text[begin:p.at]
			p.at++
			ok := true
			if escaped {
				text, ok = unescape(p.text[begin-1 : p.at])
			}
			*into = text
			return ok
		case c == '\\':
			escaped = true
			p.at++
		case c < ' ':
			return false
		}
	}
	return false
}

// unescape is the value of a JSON string. It has a variable of its own, because
// what is passed to encoding/json is allocated.
func unescape(quoted string) (text string, ok bool) {
	err := json.Unmarshal([]byte(quoted), &text)
	return text, err == nil
}

// plainLength is how many bytes of a text, eight at a time, are neither quotes nor
// backslashes nor control characters.
func plainLength(text string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(text) >= 8; text = text[8:] {
		w := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		quote, slash := w^ones*'"', w^ones*'\\'
		// A byte below another leaves its top bit after the subtraction, unless it had it before.
		if ((quote-ones)&^quote|(slash-ones)&^slash|(w-ones*' ')&^w)&tops != 0 {
			break
		}
		n += 8
	}
	return n
}

// number reads an integer.
func (p *scanner) number(into *int64) bool {
	begin := p.at
	for p.at < len(p.text) && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	digits := p.text[begin:p.at]
	if digits == "" || digits[0] == '0' && digits != "0" {
		return false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	*into = n
	return err == nil
}

// time reads a time as UnmarshalText does, which would allocate.
func (p *scanner) time(into *time.Time) bool {
	var text string
	if !p.string(&text) {
		return false
	}
	t, err := time.Parse(time.RFC3339, text)
	*into = t
	return err == nil
}

// object reads an object whose fields the caller knows, each at most once.
// Field gets the name's place in names, and reads the value.
func (p *scanner) object(names []string, field func(i int) bool) bool {
	if !p.literal("{") {
		return false
	}
	var seen uint32
	i := -1
	for first := true; ; first = false {
		if p.literal("}") {
			return true
		}
		if !first && !p.literal(",") {
			return false
		}
		i = p.name(names, i+1)
		if i < 0 || seen&(1<<i) != 0 {
			return false
		}
		seen |= 1 << i
		if !field(i) {
			return false
		}
	}
}

// name reads a field's name and is its place among those known, or -1. The name is
// looked for from a place on first, because fields are written in their order. A
// comma before the closing brace is found here, because no name follows it.
func (p *scanner) name(names []string, from int) int {
	rest, ok := strings.CutPrefix(p.text[p.at:], `"`)
	for i := from; i < len(names) && ok; i++ {
		if after, found := strings.CutPrefix(rest, names[i]); found && strings.HasPrefix(after, `":`) {
			p.at += len(names[i]) + len(`"":`)
			return i
		}
	}
	var name string
	if !p.string(&name) || !p.literal(":") {
		return -1
	}
	for i, known := range names {
		if known == name {
			return i
		}
	}
	return -1
}

// The fields of the types below, in the order that their cases count.
var (
	messageFields = []string{
		"id", "seq", "createdAt", "role", "name", "content", "toolCalls", "toolResult", "executionId", "stepId",
		"unit", "lane", "trace", "requestId", "rootRequestId", "parentRequestId",
	}
	resultFields = []string{"callId", "toolName", "content", "isError", "synthetic"}
	callFields   = []string{"id", "name", "arguments"}
)

// message reads a message of plain text. Parts and metadata are rare enough
// for the strict decoder.
func (p *scanner) message(m *Message) bool {
	texts := [...]*string{
		0: &m.ID, 3: (*string)(&m.Role), 4: &m.Name, 8: &m.ExecutionID, 9: &m.StepID, 10: &m.Unit, 11: &m.Lane,
		13: &m.RequestID, 14: &m.RootRequestID, 15: &m.ParentRequestID,
	}
	return p.object(messageFields, func(i int) bool {
		switch i {
		case 1:
			return p.number(&m.Seq)
		case 2:
			return p.time(&m.CreatedAt)
		case 5:
			return p.content(&m.Content)
		case 6:
			return p.calls(&m.ToolCalls)
		case 7:
			m.ToolResult = &ToolResult{}
			return p.result(m.ToolResult)
		case 12:
			return p.flag(&m.Trace)
		}
		return p.string(texts[i])
	})
}

func (p *scanner) content(c *Content) bool {
	var text string
	if !p.string(&text) {
		return false
	}
	if text != "" {
		*c = Text(text)
	}
	return true
}

func (p *scanner) result(r *ToolResult) bool {
	texts := [...]*string{&r.CallID, &r.ToolName, &r.Content}
	return p.object(resultFields, func(i int) bool {
		switch i {
		case 3:
			return p.flag(&r.IsError)
		case 4:
			return p.flag(&r.Synthetic)
		}
		return p.string(texts[i])
	})
}

// calls reads a list of tool calls. Their arguments are checked when the
// message is.
func (p *scanner) calls(calls *[]ToolCall) bool {
	if !p.literal("[") {
		return false
	}
	for {
		var c ToolCall
		texts := [...]*string{&c.ID, &c.Name}
		ok := p.object(callFields, func(i int) bool {
			if i < len(texts) {
				return p.string(texts[i])
			}
			begin := p.at
			ok := p.skip()
			c.Arguments = json.RawMessage(p.text[begin:p.at])
			return ok
		})
		if !ok {
			return false
		}
		*calls = append(*calls, c)
		if p.literal("]") {
			return true
		}
		if !p.literal(",") {
			return false
		}
	}
}

func (p *scanner) flag(into *bool) bool {
	*into = p.literal("true")
	return *into || p.literal("false")
}

// skip passes over an object or a list, by its brackets alone.
func (p *scanner) skip() bool {
	depth := 0
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '"':
			end := p.stringEnd()
			if end < 0 {
				return false
			}
			p.at = end
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				p.at++
				return true
			}
		}
		if depth == 0 {
			return false // no brackets
		}
	}
	return false
}

// stringEnd is where the quote that closes a string stands, -1 for nowhere.
func (p *scanner) stringEnd() int {
	for i := p.at + 1; i < len(p.text); i++ {
		switch p.text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}
