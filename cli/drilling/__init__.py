"""What ``monkeytree drill`` does: a training job on agents of this machine, a move, kills, a comparison."""
