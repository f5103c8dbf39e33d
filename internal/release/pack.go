package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"path"
	"time"
)

// epoch is the time of every file: archives of the same content are equal.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC) // the first that zip knows

func (f file) mode() int64 {
	if f.runs {
		return 0o755
	}
	return 0o644
}

// packTar packs files below a folder.
func packTar(folder string, files []file) ([]byte, error) {
	var b bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		err := archive.WriteHeader(&tar.Header{Name: path.Join(folder, f.name), Mode: f.mode(), Size: int64(len(f.data)), ModTime: epoch, Format: tar.FormatPAX})
		if err == nil {
			_, err = archive.Write(f.data)
		}
		if err != nil {
			return nil, err
		}
	}
	err = errors.Join(archive.Close(), zipped.Close())
	return b.Bytes(), err
}

// packZip is packTar for systems that expect a zip file.
func packZip(folder string, files []file) ([]byte, error) {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for _, f := range files {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: epoch})
		if err == nil {
			_, err = w.Write(f.data)
		}
		if err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return b.Bytes(), err
}
