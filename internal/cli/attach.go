package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/regular"
	"github.com/holdfast-dev/holdfast/internal/terminal"
	"github.com/holdfast-dev/holdfast/session"
)

// maxAttachment is how long an attached file may be: base64 is a third longer,
// and a runtime takes 20 MiB.
const maxAttachment = 15 << 20

// addFileFlag lets a command attach files to its message.
func addFileFlag(cmd *cobra.Command) *[]string {
	return cmd.Flags().StringArray("file", nil, "attach `FILE`, such as an image or a PDF; may be repeated")
}

// readAttachments reads files as parts of a message.
func readAttachments(paths []string) ([]session.Part, error) {
	var parts []session.Part
	for _, path := range paths {
		part, err := readAttachment(path)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// readAttachment reads a file: an image, a sound, or any other. What it is, its
// content says.
func readAttachment(path string) (session.Part, error) {
	data, err := regular.ReadPath(path, maxAttachment)
	if err != nil {
		return session.Part{}, fmt.Errorf("attach %w", err)
	}
	if len(data) == 0 {
		return session.Part{}, &session.InvalidError{Field: "file", Reason: path + " is empty"}
	}
	media, _, err := mime.ParseMediaType(http.DetectContentType(data))
	if err != nil {
		return session.Part{}, fmt.Errorf("attach %s: %w", path, err)
	}
	part := session.Part{Type: session.PartFile, Data: base64.StdEncoding.EncodeToString(data), MediaType: media, Name: filepath.Base(path)}
	switch kind, _, _ := strings.Cut(media, "/"); kind {
	case "image":
		part.Type = session.PartImage
	case "audio":
		part.Type = session.PartAudio
	}
	return part, nil
}

// newMessage returns the action that sends a text with attachments.
func newMessage(text string, attached []session.Part) holdfast.SendMessage {
	if len(attached) == 0 {
		return holdfast.SendMessage{Text: text}
	}
	return holdfast.SendMessage{Message: &session.Message{Role: session.RoleUser, Content: append(session.Text(text), attached...)}}
}

// mentionedFiles returns the files that a text names behind an @. A word that
// names no file is only a word.
func mentionedFiles(text string) []string {
	var paths []string
	for _, word := range strings.Fields(text) {
		path, found := strings.CutPrefix(word, "@")
		if !found {
			continue
		}
		for _, path := range []string{path, strings.TrimRight(path, ".,;:!?)")} { // the sentence may go on
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				paths = append(paths, path)
				break
			}
		}
	}
	return paths
}

// sendText sends what a person typed, with the files that were attached and
// those that the text names.
func (c *chat) sendText(ctx context.Context, text string) (done bool, err error) {
	attached := c.attached
	if c.In.Terminal { // lines of a pipe are data
		named, err := readAttachments(mentionedFiles(text))
		if err != nil {
			c.report(err)
			return false, nil
		}
		attached = append(attached, named...)
	}
	for _, part := range attached {
		c.Err.Status("with %s", attachmentText(part))
	}
	c.attached = nil
	return c.turn(ctx, newMessage(text, attached))
}

func attachmentText(part session.Part) string {
	return fmt.Sprintf("%s · %s · %d KB", terminal.OneLine(part.Name), part.MediaType, (base64.StdEncoding.DecodedLen(len(part.Data))+1023)/1024)
}

// attach keeps a file for the next message, or lists those that are kept.
func (c *chat) attach(_ context.Context, arg string) error {
	if arg == "" {
		if len(c.attached) == 0 {
			c.Err.Status("nothing is attached; /attach FILE attaches a file to your next message, and so does @FILE in it")
		}
		for _, part := range c.attached {
			c.Err.Status("%s", attachmentText(part))
		}
		return nil
	}
	part, err := readAttachment(arg)
	if err != nil {
		return err
	}
	c.attached = append(c.attached, part)
	c.Err.Status("attached to your next message: %s", attachmentText(part))
	return nil
}
