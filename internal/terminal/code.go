package terminal

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// language is what code is made of, as far as its colours need it.
type language struct {
	names    string   // in the line that begins a block, separated by spaces
	keywords string   // separated by spaces
	anyCase  bool     // keywords are written in any case
	comments []string // that end with their line
	open     string   // begins a comment of several lines
	close    string
	quotes   string   // of strings that end with their line
	blocks   []string // quotes of strings of several lines
	words    string   // characters that belong to words besides letters, digits and _
	keys     bool     // a word or string before a colon is a key
	changes  bool     // the first character of a line colours it
}

const cKeywords = "break case catch class const continue default do else enum extends false final finally for if implements import in instanceof " +
	"interface new null package private protected public return static super switch this throw throws true try void while "

// languages are those that answers have most. What they share with others is
// enough to tell strings, comments, numbers and keywords apart.
var languages = []language{
	{names: "go golang", comments: []string{"//"}, open: "/*", close: "*/", quotes: `"'`, blocks: []string{"`"},
		keywords: "any bool break byte case chan const continue default defer else error fallthrough false float64 for func go goto if import int int64 interface iota map nil package range return rune select string struct switch true type uint var"},
	{names: "python py python3", comments: []string{"#"}, quotes: `"'`, blocks: []string{`"""`, "'''"},
		keywords: "False None True and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return self try while with yield"},
	{names: "javascript js jsx mjs typescript ts tsx", comments: []string{"//"}, open: "/*", close: "*/", quotes: `"'`, blocks: []string{"`"}, words: "$",
		keywords: cKeywords + "any as async await boolean declare delete export from function keyof let namespace never number of readonly string type typeof undefined unknown var yield"},
	{names: "java kotlin kt scala csharp cs c# dart swift groovy php", comments: []string{"//"}, open: "/*", close: "*/", quotes: `"'`, blocks: []string{`"""`}, words: "$@",
		keywords: cKeywords + "abstract as async await boolean bool byte char double echo float foreach fun func function guard int let long namespace nil object open override record sealed self short string struct using val var when where"},
	{names: "c h cpp c++ cc hpp objc rust rs zig", comments: []string{"//"}, open: "/*", close: "*/", quotes: `"`, words: "#!",
		keywords: cKeywords + "#define #endif #if #ifdef #ifndef #include Self as async auto await bool char crate delete double dyn extern f32 f64 float fn i32 i64 impl inline int let long loop match mod move mut namespace nullptr pub ref self short signed sizeof str struct template trait type typedef typename u32 u64 u8 union unsafe unsigned use usize using virtual where"},
	{names: "bash sh shell zsh console fish", comments: []string{"#"}, quotes: `"'`, words: "-.$/",
		keywords: "case cd do done echo elif else esac exit export fi for function if in local read return set source sudo then unset until while"},
	{names: "sql postgresql postgres sqlite mysql", comments: []string{"--"}, open: "/*", close: "*/", quotes: `'"`, anyCase: true,
		keywords: "add all alter and as asc begin between by cascade case check column commit constraint create cross default delete desc distinct drop else end exists foreign from full group having if in index inner insert intersect into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then union unique update using values view when where with"},
	{names: "ruby rb", comments: []string{"#"}, quotes: `"'`, words: "@?!",
		keywords: "alias and begin break case class def do else elsif end ensure false for if in module next nil not or puts raise require rescue return self super then true unless until when while yield"},
	{names: "json json5 jsonc jsonl", comments: []string{"//"}, quotes: `"`, keywords: "true false null", keys: true},
	{names: "yaml yml toml ini", comments: []string{"#"}, quotes: `"'`, keywords: "true false null", words: "-.", keys: true},
	{names: "css scss less", open: "/*", close: "*/", quotes: `"'`, words: "-", keys: true},
	{names: "html xml svg", open: "<!--", close: "-->", quotes: `"`},
	{names: "diff patch", changes: true},
}

// codeColours colours the code of a block line by line.
type codeColours struct {
	language *language
	keywords []string
	until    string // ends the string or comment that a line before began
	colour   Colour // of that
}

// colourCode returns the colours for a language that a block of code names.
// Without one that is known all of the block looks the same.
func colourCode(name string) codeColours {
	name, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(name)), " ")
	for i, l := range languages {
		if slices.Contains(strings.Fields(l.names), name) {
			return codeColours{language: &languages[i], keywords: strings.Fields(l.keywords)}
		}
	}
	return codeColours{}
}

// paint returns a line in its colours. It adds nothing else.
func (c *codeColours) paint(to *Screen, line string) string {
	switch {
	case c.language == nil:
		return to.Paint(Dim, line)
	case c.language.changes:
		return to.Paint(changeColour(line), line)
	}
	var b strings.Builder
	if c.until != "" {
		end := endOf(line, c.until)
		b.WriteString(to.Paint(c.colour, line[:end]))
		if strings.HasSuffix(line[:end], c.until) {
			c.until = ""
		}
		line = line[end:]
	}
	for line != "" {
		size, colour := c.next(line)
		b.WriteString(to.Paint(colour, line[:size]))
		line = line[size:]
	}
	return b.String()
}

func changeColour(line string) Colour {
	switch {
	case strings.HasPrefix(line, "+"):
		return Green
	case strings.HasPrefix(line, "-"):
		return Red
	case strings.HasPrefix(line, "@@"):
		return Cyan
	}
	return Plain
}

// next returns the length of what a line begins with, and its colour.
func (c *codeColours) next(line string) (int, Colour) {
	l := c.language
	for _, mark := range l.comments {
		if strings.HasPrefix(line, mark) {
			return len(line), Dim
		}
	}
	if l.open != "" && strings.HasPrefix(line, l.open) {
		return c.span(line, l.open, l.close, Dim), Dim
	}
	for _, mark := range l.blocks {
		if strings.HasPrefix(line, mark) {
			return c.span(line, mark, mark, Green), Green
		}
	}
	first, size := utf8.DecodeRuneInString(line)
	switch {
	case strings.ContainsRune(l.quotes, first):
		end := size + endOf(line[size:], line[:size])
		if l.keys && strings.HasPrefix(strings.TrimLeft(line[end:], " "), ":") {
			return end, Cyan
		}
		return end, Green
	case l.isWord(first):
		return c.word(line)
	}
	return size, Plain
}

// span returns the length of a string or comment that may go on in the next
// line.
func (c *codeColours) span(line, open, until string, colour Colour) int {
	end := len(open) + endOf(line[len(open):], until)
	if end == len(open) || !strings.HasSuffix(line[len(open):end], until) {
		c.until, c.colour = until, colour
	}
	return end
}

// word returns the length and the colour of a word or a number.
func (c *codeColours) word(line string) (int, Colour) {
	l := c.language
	end := strings.IndexFunc(line, func(r rune) bool { return !l.isWord(r) })
	if end < 0 {
		end = len(line)
	}
	word := line[:end]
	known := word
	if l.anyCase {
		known = strings.ToLower(word)
	}
	switch {
	case slices.Contains(c.keywords, known), l.keys && strings.HasPrefix(line[end:], ":"):
		return end, Cyan
	case word[0] >= '0' && word[0] <= '9':
		return end, Yellow
	}
	return end, Plain
}

func (l *language) isWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(l.words, r)
}

// endOf returns where a string or comment ends, its end mark included; the end
// of the line if it has none. What follows a backslash ends nothing.
func endOf(line, mark string) int {
	for i := 0; i < len(line); i++ {
		switch {
		case strings.HasPrefix(line[i:], mark):
			return i + len(mark)
		case line[i] == '\\':
			i++
		}
	}
	return len(line)
}
