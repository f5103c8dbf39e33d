package acp

import (
	"fmt"
	"path"

	"github.com/holdfast-dev/holdfast/session"
)

func textBlock(text string) contentBlock { return contentBlock{Type: "text", Text: &text} }

// partsOf returns a prompt as a message has it. The text of a file that the
// editor embeds becomes part of the message: the model reads it as it was then.
func partsOf(prompt []contentBlock) (session.Content, error) {
	var parts session.Content
	for i, b := range prompt {
		part := session.Part{Type: session.PartText, MediaType: b.MimeType, Data: b.Data}
		switch {
		case b.Type == "text" && b.Text != nil:
			part = session.Part{Type: session.PartText, Text: *b.Text}
		case b.Type == "image" && b.Data != "":
			part.Type = session.PartImage
		case b.Type == "audio" && b.Data != "":
			part.Type = session.PartAudio
		case b.Type == "resource_link" && b.URI != "":
			part = session.Part{Type: session.PartText, Text: fmt.Sprintf("[%s](%s)", b.Name, b.URI)}
		case b.Type == "resource" && b.Resource != nil && b.Resource.Text != nil:
			part = session.Part{Type: session.PartText, Text: fmt.Sprintf("<file uri=%q>\n%s\n</file>", b.Resource.URI, *b.Resource.Text)}
		case b.Type == "resource" && b.Resource != nil && b.Resource.Blob != nil:
			part = session.Part{Type: session.PartFile, Data: *b.Resource.Blob, MediaType: b.Resource.MimeType, Name: path.Base(b.Resource.URI)}
		default:
			return nil, &session.InvalidError{Field: fmt.Sprintf("prompt[%d]", i), Reason: fmt.Sprintf("a block of type %q without its content cannot be used", b.Type)}
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// blocksOf returns the content of a message as an editor shows it. Parts that
// it has no form for are named.
func blocksOf(content session.Content) []contentBlock {
	var blocks []contentBlock
	for _, part := range content {
		switch {
		case part.Type == session.PartText && part.Text == "":
		case part.Type == session.PartText, part.Type == session.PartReasoning:
			blocks = append(blocks, textBlock(part.Text))
		case part.Type == session.PartImage && part.Data != "":
			blocks = append(blocks, contentBlock{Type: "image", Data: part.Data, MimeType: part.MediaType})
		case part.Type == session.PartAudio && part.Data != "":
			blocks = append(blocks, contentBlock{Type: "audio", Data: part.Data, MimeType: part.MediaType})
		case part.URL != "":
			blocks = append(blocks, contentBlock{Type: "resource_link", URI: part.URL, Name: path.Base(part.URL), MimeType: part.MediaType})
		case part.Type == session.PartFile && part.Data != "":
			blocks = append(blocks, contentBlock{Type: "resource", Resource: &resource{URI: "attachment:" + part.Name, MimeType: part.MediaType, Blob: &part.Data}})
		default:
			blocks = append(blocks, textBlock("["+part.Type+"]"))
		}
	}
	return blocks
}
