package definition

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/holdfast-dev/holdfast/session"
)

const (
	// maxTokens bounds the parser, whose time grows with their square.
	maxTokens = 20_000
	// maxNodes bounds what aliases may expand to.
	maxNodes = 50_000
)

// yaml reads a document whose first line is line before+1 of the file.
func (r *reader) yaml(doc string, before int, d *session.Definition) error {
	n, err := parseYAML(doc, before)
	if err != nil {
		return r.refuse(err.Error())
	}
	return r.definition(n, d)
}

func parseYAML(doc string, before int) (*node, error) {
	tokens := lexer.Tokenize(strings.ReplaceAll(doc, "\r\n", "\n"))
	if err := checkTokens(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxProblem(err, before)
	}
	switch len(file.Docs) {
	case 0:
		return nil, errors.New("is empty")
	case 1:
	default:
		return nil, errors.New("has more than one document")
	}
	b := &treeBuilder{before: before, anchors: map[string]*node{}}
	return b.node(file.Docs[0].Body, 0)
}

// checkTokens refuses what would keep the parser busy for long.
func checkTokens(tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return fmt.Errorf("has more than %d words and signs; put long texts in a block", maxTokens)
	}
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		}
		if depth > maxDepth {
			return fmt.Errorf("nests deeper than %d levels", maxDepth)
		}
	}
	return nil
}

// syntaxProblem keeps the reason and the line of a parser's error. The excerpt
// of the file it brings along is left out: it may show a secret.
func syntaxProblem(err error, before int) error {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return errors.New("is not YAML")
	}
	at := ""
	if t := syntax.GetToken(); t != nil && t.Position != nil {
		at = fmt.Sprintf(" (line %d)", t.Position.Line+before)
	}
	return fmt.Errorf("is not YAML: %s%s", syntax.GetMessage(), at)
}

// treeBuilder turns a YAML tree into the part of it that JSON can hold.
type treeBuilder struct {
	before  int
	nodes   int
	anchors map[string]*node
}

func (b *treeBuilder) node(n ast.Node, depth int) (*node, error) {
	if n == nil {
		return nil, errors.New("is empty")
	}
	made := &node{line: n.GetToken().Position.Line + b.before}
	b.nodes++
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("nests deeper than %d levels", maxDepth)
	case b.nodes > maxNodes:
		return nil, fmt.Errorf("has more than %d values once its aliases are written out", maxNodes)
	}
	switch v := n.(type) {
	case *ast.NullNode:
		made.kind = null
	case *ast.BoolNode:
		made.kind, made.text = boolean, fmt.Sprint(v.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return made, b.number(made, n.GetToken().Value)
	case *ast.LiteralNode:
		made.kind, made.text = text, v.Value.Value
	case *ast.StringNode:
		made.kind, made.text = text, v.Value
		if v.Token.Type == token.StringType && plainNumber.MatchString(v.Value) {
			return made, b.number(made, v.Value) // too large for the parser, but no less a number
		}
	case *ast.SequenceNode:
		return made, b.list(made, v, depth)
	case *ast.MappingNode:
		return made, b.object(made, v.Values, depth)
	case *ast.MappingValueNode:
		return made, b.object(made, []*ast.MappingValueNode{v}, depth)
	case *ast.AnchorNode:
		return b.anchor(v, depth)
	case *ast.AliasNode:
		return b.alias(v, depth)
	case *ast.TagNode:
		return nil, fmt.Errorf("has a tag, which is not supported (line %d)", made.line)
	default:
		return nil, fmt.Errorf("has something that is no value (line %d)", made.line)
	}
	return made, nil
}

// number takes only what JSON writes the same. 0x10, 010, 1_000 and .5 mean
// different things to different readers.
func (b *treeBuilder) number(n *node, written string) error {
	if !holdable(written) {
		return fmt.Errorf("has a number that is not a plain decimal one or too large; quote it if it is a text (line %d)", n.line)
	}
	n.kind, n.text = number, written
	return nil
}

func (b *treeBuilder) list(n *node, v *ast.SequenceNode, depth int) error {
	n.kind = list
	for _, value := range v.Values {
		item, err := b.node(value, depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	return nil
}

func (b *treeBuilder) object(n *node, values []*ast.MappingValueNode, depth int) error {
	n.kind = object
	for _, v := range values {
		line := v.Key.GetToken().Position.Line + b.before
		key, ok := v.Key.(*ast.StringNode)
		if !ok || key.Token.Type == token.StringType && plainNumber.MatchString(key.Value) {
			return fmt.Errorf("has a key that is not a string; quote it if it is one (line %d)", line)
		}
		value, err := b.node(v.Value, depth+1)
		if err != nil {
			return err
		}
		n.entries = append(n.entries, entry{key: key.Value, line: line, value: value})
	}
	return nil
}

// anchor names a value once it is whole, so that no value can hold itself.
func (b *treeBuilder) anchor(v *ast.AnchorNode, depth int) (*node, error) {
	n, err := b.node(v.Value, depth)
	if err != nil {
		return nil, err
	}
	b.anchors[v.Name.GetToken().Value] = n
	return n, nil
}

func (b *treeBuilder) alias(v *ast.AliasNode, depth int) (*node, error) {
	line := v.GetToken().Position.Line + b.before
	n, ok := b.anchors[v.Value.GetToken().Value]
	if !ok {
		return nil, fmt.Errorf("has an alias without an anchor before it (line %d)", line)
	}
	return b.copyOf(n, depth)
}

// copyOf counts what an alias stands for as if it were written out.
func (b *treeBuilder) copyOf(n *node, depth int) (*node, error) {
	size, height := n.extent(maxNodes)
	if b.nodes += size; b.nodes > maxNodes {
		return nil, fmt.Errorf("has more than %d values once its aliases are written out", maxNodes)
	}
	if depth+height > maxDepth {
		return nil, fmt.Errorf("nests deeper than %d levels", maxDepth)
	}
	return n, nil
}

// extent is the number of values in a node and how deep they nest. It stops
// counting beyond most.
func (n *node) extent(most int) (size, height int) {
	size = 1
	add := func(child *node) {
		if size > most {
			return
		}
		s, h := child.extent(most - size)
		size, height = size+s, max(height, h+1)
	}
	for _, item := range n.items {
		add(item)
	}
	for _, e := range n.entries {
		add(e.value)
	}
	return size, height
}
