package redisstore

import "strings"

// slots is the number of slots of a Redis Cluster.
const slots = 16384

// slot is the slot of key: of its hash tag.
func slot(key string) int { return int(crc16(hashTag(key))) % slots }

// hashTag is what stands between the first { of key and the next }, if anything does, else the whole.
func hashTag(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			return key[open+1 : open+1+n]
		}
	}
	return key
}

var crcTable = newCRCTable()

// newCRCTable is the table of CRC-16/XMODEM: polynomial 0x1021, most significant bit first, from 0.
func newCRCTable() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}

func crc16(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^s[i]]
	}
	return crc
}
