package docsite

import (
	"net/url"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// repository is where files that are no part of the documentation can be read.
const repository = "https://github.com/holdfast-dev/holdfast/blob/main/"

// section is a part of a page: a heading and what follows it.
type section struct {
	Page, Title, Anchor string
	text                strings.Builder

	titleStems, stems []string // for searches; set by the first one
}

// read parses a page, points its links to files of the repository there, and
// returns its sections.
func read(m goldmark.Markdown, name string, data []byte) (ast.Node, []*section) {
	tree := m.Parser().Parse(text.NewReader(data))
	var sections []*section
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it fails only where this function does
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			id, _ := n.AttributeString("id")
			anchor, _ := id.([]byte)
			sections = append(sections, &section{Page: name, Title: words(n, data), Anchor: string(anchor)})
			return ast.WalkSkipChildren, nil
		case *ast.Link:
			n.Destination = []byte(target(string(n.Destination)))
		}
		if len(sections) > 0 {
			sections[len(sections)-1].text.WriteString(ownWords(n, data))
		}
		return ast.WalkContinue, nil
	})
	return tree, sections
}

// target returns where a link leads from a page of the site.
func target(link string) string {
	if file, outside := strings.CutPrefix(link, "../"); outside {
		return repository + file
	}
	return link
}

// ownWords returns what a node itself says, without the nodes in it.
func ownWords(n ast.Node, data []byte) string {
	switch n := n.(type) {
	case *ast.Text:
		said := string(n.Value(data))
		if n.SoftLineBreak() || n.HardLineBreak() || n.NextSibling() == nil {
			said += " "
		}
		return said
	case *ast.String:
		return string(n.Value)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		return string(n.Lines().Value(data)) + " "
	}
	return ""
}

// words returns what a node and the nodes in it say.
func words(n ast.Node, data []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it never fails
		if entering {
			b.WriteString(ownWords(n, data))
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// firstParagraph returns the first paragraph of a page.
func firstParagraph(tree ast.Node, data []byte) string {
	for n := tree.FirstChild(); n != nil; n = n.NextSibling() {
		if n.Kind() == ast.KindParagraph {
			return words(n, data)
		}
	}
	return ""
}

// local reports a link that stays on the site, as page and anchor.
func local(link string) (page, anchor string, ok bool) {
	u, err := url.Parse(link)
	if err != nil || u.Host != "" || u.Scheme != "" {
		return "", "", false
	}
	return u.Path, u.Fragment, true
}
