// Package tiktoken counts tokens as OpenAI's models do. A program that imports
// it grows by 12 MB of vocabularies and takes some seconds longer to build for
// the first time; without it memory counts by an estimate. A catalog of models
// takes Counter as its Config.Counter.
package tiktoken

import (
	"hash/maphash"
	"strings"
	"sync"

	"github.com/tiktoken-go/tokenizer"

	"github.com/holdfast-dev/holdfast/session"
)

// What is around a message besides its text. Nobody but the provider knows it
// exactly, and it changes: these are what OpenAI has published for its chat
// models.
const (
	frame = 4 // of a message with its role, and of a tool call, which is sent like one
	named = 1 // more for a message with a name
	media = 1000
)

// Counter counts messages for a model, and has a name that changes whenever
// its counts do. The model may have its provider before it, as in
// openai/gpt-4.1; instead of a model a vocabulary may be named, o200k_base or
// cl100k_base. Text, tool calls and results are counted by the model's own
// vocabulary; an image, a file or a sound is taken for 1,000 tokens.
//
// ok is false, and count is nil, for models of which the vocabulary is not
// known: let memory estimate.
//
// The first count with a vocabulary loads it, which takes up to 100 ms. A
// counter remembers the counts of longer texts, because a conversation is
// counted again and again. Counts may be made at the same time.
func Counter(model string) (count func(session.Message) int, name string, ok bool) {
	v, ok := vocabularyOf(model)
	if !ok {
		return nil, "", false
	}
	c := &counter{vocabulary: v, seed: maphash.MakeSeed(), known: map[uint64]int{}}
	return c.message, "tiktoken/" + string(v.encoding) + "/1", true
}

// vocabulary is one way to cut text into tokens, loaded when it is needed.
type vocabulary struct {
	encoding tokenizer.Encoding
	load     func() (tokenizer.Codec, error)
}

func newVocabulary(e tokenizer.Encoding) vocabulary {
	return vocabulary{encoding: e, load: sync.OnceValues(func() (tokenizer.Codec, error) { return tokenizer.Get(e) })}
}

var (
	o200k  = newVocabulary(tokenizer.O200kBase)
	cl100k = newVocabulary(tokenizer.Cl100kBase)
)

// families are the models by how their names begin. What follows the beginning
// is nothing, or a suffix after one of "-.:": gpt-4o is not of the family
// gpt-4.
var families = []struct {
	names []string
	vocabulary
}{
	{[]string{"gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "o1", "o3", "o4"}, o200k},
	{[]string{"gpt-4", "gpt-3.5", "gpt-35", "text-embedding-3", "text-embedding-ada"}, cl100k},
}

func vocabularyOf(model string) (vocabulary, bool) {
	for _, v := range []vocabulary{o200k, cl100k} {
		if model == string(v.encoding) {
			return v, true
		}
	}
	model = model[strings.LastIndexByte(model, '/')+1:]
	model = strings.TrimPrefix(model, "ft:") // trained further, with the same vocabulary
	for _, f := range families {
		for _, name := range f.names {
			rest, ok := strings.CutPrefix(model, name)
			if ok && (rest == "" || strings.ContainsRune("-.:", rune(rest[0]))) {
				return f.vocabulary, true
			}
		}
	}
	return vocabulary{}, false
}

// counter counts by a vocabulary.
type counter struct {
	vocabulary
	seed maphash.Seed

	mu    sync.Mutex // guards known
	known map[uint64]int
}

// message counts a message and what is around it.
func (c *counter) message(m session.Message) int {
	n := frame
	if m.Name != "" {
		n += named + c.text(m.Name)
	}
	for _, p := range m.Content {
		switch p.Type {
		case session.PartImage, session.PartFile, session.PartAudio:
			n += media
		default:
			n += c.text(p.Text) + c.text(string(p.Raw))
		}
	}
	for _, call := range m.ToolCalls {
		n += frame + c.text(call.Name) + c.text(string(call.Arguments))
	}
	if m.ToolResult != nil {
		n += c.text(m.ToolResult.ToolName) + c.text(m.ToolResult.Content)
	}
	return n
}

// What is remembered: texts from so many bytes on, and so many of them.
const (
	worthKnowing = 64
	maxKnown     = 1 << 14
)

// text counts a text, or remembers its count.
func (c *counter) text(s string) int {
	if len(s) < worthKnowing {
		return c.cut(s)
	}
	key := maphash.String(c.seed, s)
	c.mu.Lock()
	n, ok := c.known[key]
	c.mu.Unlock()
	if ok {
		return n
	}
	n = c.cut(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxKnown {
		clear(c.known)
	}
	c.known[key] = n
	return n
}

// cut counts a text. One that cannot be cut is counted as by the estimate: a
// count that is a little off is better than none.
func (v vocabulary) cut(s string) int {
	if s == "" {
		return 0
	}
	codec, err := v.load()
	if err == nil {
		var n int
		if n, err = codec.Count(s); err == nil {
			return n
		}
	}
	return (len(s) + 3) / 4
}
